// Package command is the command line of criadapter: Root serves, and the commands beside it (see commands) are for the
// person with a node. Completion scripts and man pages are made from the same tree, by package gen.
package command
