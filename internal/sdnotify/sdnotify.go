// Package sdnotify tells systemd the state of a service (sd_notify(3)). Without a notify socket it tells nothing. All
// functions are safe for concurrent use.
package sdnotify

import (
	"context"
	"time"

	"github.com/containerd/log"
	"github.com/coreos/go-systemd/v22/daemon"
)

func send(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.G(ctx).WithError(err).Warn("cannot notify systemd")
	}
}

// Ready says that the service is ready, or that a reload has ended. status is the text that `systemctl status` shows.
func Ready(ctx context.Context, status string) { send(ctx, daemon.SdNotifyReady+"\nSTATUS="+status) }

// Status sets the text that `systemctl status` shows.
func Status(ctx context.Context, status string) { send(ctx, "STATUS="+status) }

// Reloading says that the service reloads. Ready has to follow.
func Reloading(ctx context.Context) {
	send(ctx, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
}

// Stopping says that the service ends.
func Stopping(ctx context.Context) { send(ctx, daemon.SdNotifyStopping) }

// Watchdog feeds systemd's watchdog while check returns nil, until ctx ends. It returns at once if systemd asks for no
// watchdog. The context of a check ends when the next one is due. status is called after a check without an error.
func Watchdog(ctx context.Context, check func(context.Context) error, status func() string) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	// The watchdog is fed a little more than twice in a period, because the machine may be busy at one of these times.
	pause := period * 2 / 5
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if err := bounded(ctx, pause, check); err == nil {
			send(ctx, daemon.SdNotifyWatchdog+"\nSTATUS="+status())
		} else if ctx.Err() == nil {
			log.G(ctx).WithError(err).Error("server failed its health check, " +
				"systemd's watchdog ends the server unless a later check succeeds")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func bounded(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return check(ctx)
}
