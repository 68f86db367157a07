package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/gvisor"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// server is the CRI server under examination.
type server struct {
	endpoint string
	// stop ends the server if startServer has started it.
	stop func() error
}

// startGVisor starts an engine that has gVisor's runtime.
func startGVisor(ctx context.Context, env rigenv.Env) (*engine.Engine, error) {
	runsc, err := gvisor.Runsc(ctx)
	if err != nil {
		return nil, err
	}
	return engine.Launch(ctx, engine.Options{Env: env, Runtimes: map[string]string{gvisorHandler: runsc}})
}

// startServer starts criadapter, unless endpoint names a running server. At the end, criadapter's log is copied to
// reportDir.
func startServer(ctx context.Context, env rigenv.Env, endpoint, reportDir string) (server, error) {
	if endpoint != "" {
		return server{endpoint: endpoint, stop: func() error { return nil }}, nil
	}
	s, err := adapter.New(adapter.Options{Env: env})
	if err != nil {
		return server{}, err
	}
	stop := func() error {
		// An interrupt may have ended ctx. Stop has its own time limit.
		err := s.Stop(context.WithoutCancel(ctx))
		kept := program.KeepFiles(reportDir, s.Dir, filepath.Base(s.LogPath))
		return errors.Join(err, kept, s.Close(context.WithoutCancel(ctx)))
	}
	if err := s.Start(ctx); err != nil {
		return server{}, errors.Join(err, stop())
	}
	clients, err := s.Clients()
	if err != nil {
		return server{}, errors.Join(err, stop())
	}
	return server{endpoint: clients, stop: stop}, nil
}
