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

// recoverGrace is how long systemd waits for pods whose set-up or end a crash has cut short. The rest of the recovery,
// behind a plugin that hangs, goes on while the server is ready.
const recoverGrace = time.Minute

// notify tells systemd something, if it wants to know.
func notify(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.G(ctx).WithError(err).Warn("cannot notify systemd")
	}
}

// notifyReady tells systemd that the server is ready: once the pods are recovered, or at once where the engine is not
// there, because the server is meant to wait for it. It returns when that is done, or with ctx.
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

// statusLine is what `systemctl status` shows.
func statusLine(services *services) string {
	if err := services.cache.Err(); err != nil {
		return "STATUS=Serving CRI from memory: " + err.Error()
	}
	snapshot := services.cache.Snapshot()
	return fmt.Sprintf("STATUS=Serving CRI, %d pods and %d containers", len(snapshot.Pods()), len(snapshot.Containers()))
}

// watchdog keeps systemd's watchdog quiet for as long as the program works: a request over its own socket is answered,
// the cache's goroutines get on, and its lock is free (statusLine takes it, and waits for ever if it is not). It returns
// when ctx ends, at once where no watchdog is asked for.
func watchdog(ctx context.Context, socket string, services *services) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	// Twice in a period and a little more, because a machine may be busy at one of the two.
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

// checkSelf finds out within timeout whether the server works: requests go through all of it, and the cache follows.
func checkSelf(ctx context.Context, socket string, timeout time.Duration, stalled func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return errors.Join(askVersion(ctx, socket), stalled())
}

// askVersion is a request of a client, without the engine.
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
