package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// notify tells systemd something, if it wants to know.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.WithError(err).Warn("cannot notify systemd")
	}
}

// watchdog keeps systemd's watchdog quiet for as long as the server answers a
// real request on its own socket. It returns when ctx ends, at once where no
// watchdog is asked for.
func watchdog(ctx context.Context, socket string) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	ticker := time.NewTicker(period / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := askVersion(ctx, socket, period/2); err != nil {
				logrus.WithError(err).Error("the server does not answer itself, leaving it to systemd's watchdog")
				continue
			}
			notify(daemon.SdNotifyWatchdog)
		case <-ctx.Done():
			return
		}
	}
}

func askVersion(ctx context.Context, socket string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
	return err
}
