package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"

	"github.com/criadapter/criadapter/config"
)

// drainTime is what requests under way get to finish once the server is told
// to end.
const drainTime = 10 * time.Second

// run serves until ctx ends. The order is: take the state and the socket, so
// that a second server is refused before it touches anything; build the rooms;
// follow the engine; serve. The end goes the other way round, and pods go on.
func run(ctx context.Context, cfg config.Config) error {
	lock, err := lockRoot(cfg.RootDirectory)
	if err != nil {
		return err
	}
	defer lock.Close()
	listener, err := listen(cfg.SocketPath())
	if err != nil {
		return err
	}
	defer listener.Close()
	observers, err := observe(ctx, cfg)
	if err != nil {
		return err
	}
	defer observers.close()
	rooms, err := build(cfg, observers.metrics)
	if err != nil {
		return err
	}
	defer rooms.close()
	defer observers.serve(cfg, rooms)()
	return serve(ctx, cfg, listener, rooms, observers)
}

// serve answers CRI requests and follows the engine until ctx ends.
func serve(ctx context.Context, cfg config.Config, listener net.Listener, rooms *rooms, observers *observers) error {
	// The engine is followed until the last request is answered.
	follow, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	following := make(chan struct{})
	go func() {
		defer close(following)
		rooms.follow(follow)
	}()
	defer func() { stopFollowing(); <-following }()

	cri := rooms.server(cfg, observers.metrics)
	rpc := grpc.NewServer(append(cri.GRPCOptions(), observers.grpcOptions()...)...)
	cri.Register(rpc)
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(listener) }()
	streamed := make(chan error, 1)
	go func() {
		defer close(streamed)
		streamed <- rooms.streams.Serve()
	}()
	defer func() { rooms.endStreams(); <-streamed }()
	logrus.WithFields(logrus.Fields{"endpoint": cfg.Endpoint, "version": version}).Info("serving CRI")
	notify(daemon.SdNotifyReady)
	go watchdog(follow, listener.Addr().String())

	select {
	case err := <-served:
		return fmt.Errorf("serving CRI: %w", err)
	case err := <-streamed:
		return err
	case <-ctx.Done():
	}
	notify(daemon.SdNotifyStopping)
	logrus.Info("ending; pods and containers go on running")
	cri.EndStreams()
	shutDown(rpc)
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving CRI: %w", err)
	}
	return nil
}

// shutDown lets requests finish for a while and then cuts them off.
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
