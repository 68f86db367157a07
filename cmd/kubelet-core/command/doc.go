// Package command is the command line of kubelet-core: the commands, and the flags and the configuration file of run.
package command
