package main

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveSignals keeps SIGHUP and SIGPIPE from ending the program until stop is called. A SIGHUP goes to the channel
// and asks for a reload. A closed log pipe causes SIGPIPE. The signals are caught instead of ignored: child processes
// such as CNI plugins would inherit ignored signals.
func surviveSignals() (reloads <-chan os.Signal, stop func()) {
	hangups, pipes := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(pipes, syscall.SIGPIPE) // never read: logging a SIGPIPE would cause the next SIGPIPE
	return hangups, func() {
		signal.Stop(hangups)
		signal.Stop(pipes)
	}
}
