package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/containerd/log"
)

// surviveSignals keeps two signals from ending a kubelet, until the returned stop: SIGHUP, which a terminal that closes
// sends, and unit files on a reload, and SIGPIPE, which a log that nobody reads any more causes. They are caught, not
// ignored, because programs that are started would inherit that. The other commands end with their terminal.
func surviveSignals(ctx context.Context) (stop func()) {
	hangups, pipes := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(pipes, syscall.SIGPIPE) // nobody reads them: a line about it would cause the next one
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				log.G(ctx).Info("nothing to reload: manifests and certificates are followed, flags need a restart")
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		signal.Stop(pipes)
		close(stopped)
		<-ended
	}
}
