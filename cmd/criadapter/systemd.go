package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	"github.com/coreos/go-systemd/v22/daemon"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// recoverGrace bounds systemd's wait for pods whose set-up or end a crash interrupted. The server is ready then, and
// the rest of the recovery goes on.
const recoverGrace = time.Minute

// notify sends a state to systemd, if the service has a notify socket.
func notify(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.G(ctx).WithError(err).Warn("cannot notify systemd")
	}
}

// notifyReady reports to systemd that the server is ready, after the recovery of pods. Without an engine it reports at
// once, because the server is meant to wait for the engine. It returns after the report, or when ctx ends.
func notifyReady(ctx context.Context, services *services) {
	if services.cache.WaitSettled(ctx) != nil {
		return
	}
	if services.cache.Err() == nil {
		select {
		case <-services.recovered:
		case <-time.After(recoverGrace):
			log.G(ctx).Warn("pods are still being recovered, telling systemd that the server is ready all the same")
		case <-ctx.Done():
			return
		}
	}
	notify(ctx, daemon.SdNotifyReady+"\n"+statusLine(services))
}

// statusLine is the status in `systemctl status`.
func statusLine(services *services) string {
	if err := services.cache.Err(); err != nil {
		return "STATUS=Serving CRI from memory: " + err.Error()
	}
	snapshot := services.cache.Snapshot()
	return fmt.Sprintf("STATUS=Serving CRI, %d pods and %d containers", len(snapshot.Pods()),
		len(snapshot.Containers()))
}

// watchdog feeds systemd's watchdog while the program works. A request over its own socket must be answered, and the
// cache's goroutines must make progress. The cache's lock must be free: statusLine takes it and would wait for ever.
// watchdog returns when ctx ends, or at once if systemd asks for no watchdog.
func watchdog(ctx context.Context, socket string, services *services) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	// A little more than twice in a period, because a machine may be busy at one of the two.
	ticker := time.NewTicker(period * 2 / 5)
	defer ticker.Stop()
	for {
		if err := checkSelf(ctx, socket, period*2/5, services.cache.Stalled); err == nil {
			notify(ctx, daemon.SdNotifyWatchdog+"\n"+statusLine(services))
		} else if ctx.Err() == nil {
			log.G(ctx).WithError(err).Error("server does not work any more, leaving it to systemd's watchdog")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// checkSelf checks within timeout that the server works: it answers a request, and the cache makes progress.
func checkSelf(ctx context.Context, socket string, timeout time.Duration, stalled func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return errors.Join(askVersion(ctx, socket), stalled())
}

// askVersion sends a client's request that needs no engine.
func askVersion(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return fmt.Errorf("asking the own socket for the version: %w", err)
	}
	return nil
}
