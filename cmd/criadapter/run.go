package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc"

	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/sdnotify"
)

// drainTime is how long running requests may still take after the server was asked to end.
const drainTime = 10 * time.Second

// run serves until ctx ends. It locks the state and opens the socket first, so that a second server is refused before
// it changes anything. Then it builds the services, follows the engine and serves. It ends in the opposite order, and
// pods keep running.
func run(ctx context.Context, settings command.Settings, hangups <-chan os.Signal) error {
	cfg := settings.Config
	ctx = log.WithLogger(ctx, log.L.WithField("component", "criadapter"))
	warnOfKernel(ctx, kernelRelease)
	lock, err := lockRoot(cfg.RootDirectory, "stop it, or choose another --root-directory")
	if err != nil {
		return err
	}
	defer lock.Close()
	listeners, err := listen(cfg.SocketPath())
	if err != nil {
		return err
	}
	for _, listener := range listeners {
		defer listener.Close()
	}
	observers, err := observe(ctx, cfg)
	if err != nil {
		return err
	}
	defer observers.close(ctx)
	services, err := build(ctx, cfg, observers.metrics)
	if err != nil {
		return err
	}
	defer services.close(ctx)
	defer observers.serve(ctx, cfg, services)()
	reloading, endReloads := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	reloads.Go(func() { followReloads(reloading, hangups, settings, services) })
	defer reloads.Wait()
	defer endReloads()
	return serveCRI(ctx, cfg, listeners, services, observers)
}

// serveCRI answers CRI requests on all listeners and follows the engine until ctx ends.
func serveCRI(
	ctx context.Context, cfg config.Config, listeners []net.Listener, services *services, observers *observers,
) error {
	// The engine is followed until the last request is answered.
	follow, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	following := make(chan struct{})
	go func() {
		defer close(following)
		services.follow(follow)
	}()
	defer func() { stopFollowing(); <-following }()

	cri := services.server(cfg, observers.metrics)
	rpc := grpc.NewServer(append(cri.GRPCOptions(), observers.grpcOptions()...)...)
	cri.Register(rpc)
	served := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { served <- rpc.Serve(listener) }()
	}
	streamed := make(chan error, 1)
	go func() {
		defer close(streamed)
		streamed <- services.streams.Serve()
	}()
	defer func() { services.endStreams(ctx); <-streamed }()
	log.G(ctx).WithFields(log.Fields{"endpoint": cfg.Endpoint, "version": version}).Info("serving CRI")
	telling, endTelling := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { notifyReady(telling, services) })
	told.Go(func() { watchdog(telling, listeners[0].Addr().String(), services) })
	defer told.Wait()
	defer endTelling()

	select {
	case err := <-served:
		return fmt.Errorf("serving CRI: %w", err)
	case err := <-streamed:
		return err
	case <-ctx.Done():
	}
	sdnotify.Stopping(ctx)
	log.G(ctx).Info("shutting down, pods keep running")
	cri.EndStreams()
	shutDown(rpc)
	for range listeners {
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serving CRI: %w", err)
		}
	}
	return nil
}

// shutDown lets requests finish for drainTime and then closes their connections.
func shutDown(rpc *grpc.Server) {
	done := make(chan struct{})
	go func() {
		rpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainTime):
		rpc.Stop()
		<-done
	}
}
