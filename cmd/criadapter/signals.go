package main

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveSignals handles two signals until stop, so that they do not end the program. SIGHUP asks for a reload and goes
// to the channel. SIGPIPE comes from a log without a reader. The signals are caught instead of ignored: child processes
// such as CNI plugins would inherit ignored signals.
func surviveSignals() (reloads <-chan os.Signal, stop func()) {
	hangups, pipes := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(pipes, syscall.SIGPIPE) // it has no receiver: a log line would cause another SIGPIPE
	return hangups, func() {
		signal.Stop(hangups)
		signal.Stop(pipes)
	}
}
