package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/sdnotify"
)

// recoverGrace bounds systemd's wait for pods whose set-up or end a crash interrupted. After that the server
// counts as ready, and the recovery goes on.
const recoverGrace = time.Minute

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
			log.G(ctx).Warn("pods are still being recovered, telling systemd anyway that the server is ready")
		case <-ctx.Done():
			return
		}
	}
	services.ready.Store(true) // before the message, because systemd may reload at once
	sdnotify.Ready(ctx, statusLine(services))
}

// statusLine is the status in `systemctl status`.
func statusLine(services *services) string {
	if err := services.cache.Err(); err != nil {
		return "Serving CRI from memory: " + err.Error()
	}
	snapshot := services.cache.Snapshot()
	return fmt.Sprintf("Serving CRI, %d pods and %d containers", len(snapshot.Pods()),
		len(snapshot.Containers()))
}

// watchdog feeds systemd's watchdog while the program works, until ctx ends. statusLine takes the cache's lock. If
// another goroutine never releases the lock, the feeding ends, and systemd's watchdog ends the program.
func watchdog(ctx context.Context, socket string, services *services) {
	check := func(ctx context.Context) error { return checkSelf(ctx, socket, services.cache.Stalled) }
	sdnotify.Watchdog(ctx, check, func() string { return statusLine(services) })
}

// checkSelf checks that the server works: it answers a request over its own socket, and the cache's goroutines make
// progress.
func checkSelf(ctx context.Context, socket string, stalled func() error) error {
	return errors.Join(askVersion(ctx, socket), stalled())
}

// askVersion sends a Version request, which needs no engine.
func askVersion(ctx context.Context, socket string) error {
	conn, err := status.Dial("unix://" + socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return fmt.Errorf("asking the server's own socket for the version: %w", err)
	}
	return nil
}
