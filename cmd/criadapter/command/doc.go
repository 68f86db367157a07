// Package command is the command line of criadapter. Root serves, and the other commands (see commands) are for a
// node's operator. The program in packaging/manuals makes completion scripts and man pages from the same tree.
package command
