package main

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveSignals keeps two signals from ending the program, until the returned stop: SIGHUP, which asks for a reload and
// goes to the channel, and SIGPIPE, which a log that nobody reads any more causes. Both are caught, not ignored, because
// programs that are started, such as CNI plugins, would inherit that.
func surviveSignals() (reloads <-chan os.Signal, stop func()) {
	hangups, pipes := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(pipes, syscall.SIGPIPE) // nobody reads them: a line about it would cause the next one
	return hangups, func() {
		signal.Stop(hangups)
		signal.Stop(pipes)
	}
}
