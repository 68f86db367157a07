package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/config"
	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/image/volume"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/sandbox"
	"github.com/criadapter/criadapter/server"
	"github.com/criadapter/criadapter/state"
	"github.com/criadapter/criadapter/stats"
	"github.com/criadapter/criadapter/streaming"
	"github.com/criadapter/criadapter/telemetry"
)

// rooms are the parts of the program, wired to each other.
type rooms struct {
	engine     *docker.Client
	store      *checkpoint.Store
	mirror     *state.Mirror
	network    *cni.Network // nil on Docker's bridge
	volumes    *volume.Store
	images     *image.Service
	logs       *logs.Service
	containers *container.Service
	sandboxes  *sandbox.Service
	stats      *stats.Collector
	streams    *streaming.Server
}

// build makes all parts. It touches the disk but not the engine, which may
// come up later.
func build(cfg config.Config, metrics *telemetry.Metrics) (_ *rooms, err error) {
	r := &rooms{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	r.engine, err = docker.Dial(docker.Options{
		Host:           cfg.DockerEndpoint,
		RequestTimeout: time.Duration(cfg.RuntimeRequestTimeout),
		Observe:        metrics.EngineCall,
	})
	if err != nil {
		return nil, err
	}
	if r.store, err = checkpoint.Open(filepath.Join(cfg.RootDirectory, "pods")); err != nil {
		return nil, err
	}
	if cfg.NetworkPlugin == config.NetworkCNI {
		r.network, err = cni.New(cni.Options{ConfDir: cfg.CNIConfDir, BinDirs: cfg.BinDirs(), CacheDir: cfg.CacheDir(), Observe: metrics.CNIOperation})
		if err != nil {
			return nil, err
		}
	}
	r.volumes, err = volume.Open(volume.Options{Root: filepath.Join(cfg.RootDirectory, "image-volumes"), Engine: r.engine})
	if err != nil {
		return nil, err
	}
	r.images, err = image.New(image.Options{
		Engine:               r.engine,
		Mounted:              r.volumes.Mounted,
		SandboxImage:         cfg.SandboxImage,
		PullProgressDeadline: time.Duration(cfg.ImagePullProgressDeadline),
		ObservePull:          metrics.Pull,
	})
	if err != nil {
		return nil, err
	}
	if r.logs, err = logs.New(logs.Options{ObserveBatch: metrics.LogBatch}); err != nil {
		return nil, err
	}
	if r.stats, err = stats.New(stats.Options{MetricGroups: cfg.MetricGroups()}); err != nil {
		return nil, fmt.Errorf("--cri-metrics: %w", err)
	}
	r.mirror = state.New(state.Options{
		Engine:        r.engine,
		Records:       r.store,
		RootDirectory: filepath.Clean(cfg.RootDirectory),
		ObserveEvent:  metrics.Event,
	})
	r.wire(cfg, sandbox.NewFiles(filepath.Join(cfg.RootDirectory, "files")))
	r.streams, err = streaming.Listen(streaming.Options{
		Runtime:        streamRuntime{containers: r.containers, mirror: r.mirror},
		Address:        cfg.StreamingBindAddr,
		CertFile:       cfg.StreamingTLSCertFile,
		KeyFile:        cfg.StreamingTLSKeyFile,
		AllowPlaintext: cfg.StreamingAllowPlaintext,
		IdleTimeout:    time.Duration(cfg.StreamingIdleTimeout),
	})
	return r, err
}

// wire makes the two rooms that need most of the others.
func (r *rooms) wire(cfg config.Config, files *sandbox.Files) {
	r.containers = container.New(container.Options{
		Engine:  r.engine,
		Mirror:  r.mirror,
		Store:   r.store,
		Images:  r.images,
		Cgroups: r.stats,
		Logs:    r.logs,
		Files:   files.Of,

		ImageVolumes:  r.volumes,
		RootDirectory: filepath.Clean(cfg.RootDirectory),
		LinkLogs:      cfg.ContainerLogMode == config.LogModeSymlink,
	})
	r.mirror.OnExit(r.containers.DrainExited)
	opts := sandbox.Options{
		Engine:     r.engine,
		Mirror:     r.mirror,
		Store:      r.store,
		Images:     r.images,
		Containers: r.containers,
		Files:      files,
		Cgroups:    r.stats,

		RootDirectory: filepath.Clean(cfg.RootDirectory),
	}
	if r.network != nil { // a nil *cni.Network would not be a nil interface
		opts.Network = r.network
	}
	r.sandboxes = sandbox.New(opts)
}

func (r *rooms) server(cfg config.Config, metrics *telemetry.Metrics) *server.Server {
	opts := server.Options{
		Mirror:         r.mirror,
		Engine:         r.engine,
		Sandboxes:      r.sandboxes,
		Containers:     r.containers,
		Images:         r.images,
		Stats:          r.stats,
		Streams:        r.streams,
		Observe:        metrics.RPC,
		RequestTimeout: time.Duration(cfg.RuntimeRequestTimeout),
		Config:         cfg,
		Warnings:       r.warnings,
	}
	if r.network != nil {
		opts.Network = r.network
	}
	return server.New(opts)
}

// warnings are what an operator should know of, for a verbose Status.
func (r *rooms) warnings() []string {
	_, quarantined, err := r.store.List()
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	for _, q := range quarantined {
		texts = append(texts, fmt.Sprintf("the checkpoint of pod sandbox %s was corrupt and is kept as %s: %v", q.SandboxID, q.Path, q.Reason))
	}
	return texts
}

// follow keeps the mirror up to date until ctx ends. Once it is complete for
// the first time, what a crash has cut short is finished.
func (r *rooms) follow(ctx context.Context) {
	recovered := make(chan struct{})
	go func() {
		defer close(recovered)
		if r.mirror.WaitSynced(ctx) != nil {
			return
		}
		err := errors.Join(r.containers.Recover(ctx), r.sandboxes.Recover(ctx))
		if err != nil && ctx.Err() == nil {
			logrus.WithError(err).Error("not everything could be recovered, the pods concerned need a look")
		}
	}()
	_ = r.mirror.Run(ctx) // ends with ctx, and only then
	<-recovered
}

// endStreams ends the streaming sessions, whose processes are told so.
func (r *rooms) endStreams() {
	if r.streams == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := r.streams.Close(ctx); err != nil {
		logrus.WithError(err).Warn("exec, attach and port-forward did not end in order")
	}
}

// close ends the parts in the order of their dependence. Set-ups are rolled
// back and log positions saved before what they need goes.
func (r *rooms) close() {
	r.endStreams()
	if r.sandboxes != nil {
		r.sandboxes.Close()
	}
	if r.logs != nil {
		r.logs.Close()
	}
	if r.images != nil {
		r.images.Close()
	}
	if r.volumes != nil {
		r.volumes.Close()
	}
	if r.stats != nil {
		r.stats.Close()
	}
	if r.network != nil {
		if err := r.network.Close(); err != nil {
			logrus.WithError(err).Warn("cannot stop watching the CNI configuration")
		}
	}
	if r.engine != nil {
		if err := r.engine.Close(); err != nil {
			logrus.WithError(err).Warn("cannot close the connections to the engine")
		}
	}
}
