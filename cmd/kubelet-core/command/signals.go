package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// surviveSignals keeps SIGHUP and SIGPIPE from ending the kubelet, until stop is called. A closed terminal and the
// reload of a unit send SIGHUP, which calls reload. A closed log pipe causes SIGPIPE. The signals are caught, because
// child processes would inherit ignored signals. All commands except run end when their terminal is closed.
func surviveSignals(ctx context.Context, reload func(context.Context)) (stop func()) {
	hangups, pipes := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(pipes, syscall.SIGPIPE) // never read: logging a SIGPIPE would cause the next SIGPIPE
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				reload(ctx)
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
