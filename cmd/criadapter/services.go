package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/image/artifact"
	"github.com/criadapter/criadapter/image/trust"
	"github.com/criadapter/criadapter/image/volume"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/telemetry"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/migrate"
	"github.com/criadapter/criadapter/nri"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/sandbox"
	"github.com/criadapter/criadapter/server"
	"github.com/criadapter/criadapter/state"
	"github.com/criadapter/criadapter/stats"
	"github.com/criadapter/criadapter/streaming"
)

// registryCerts has the certificates of registries, as Docker Engine reads them.
const registryCerts = "/etc/docker/certs.d"

// rootCredentials is the credentials file of `docker login` by root.
const rootCredentials = "/root/.docker/config.json"

// services are the parts of the program.
type services struct {
	// inForce has the current settings. A reload replaces them.
	inForce    atomic.Pointer[config.Config]
	engine     *docker.Client
	store      *checkpoint.Store
	migration  *migrate.Node // takes pods of cri-dockerd over
	cache      *state.Cache
	network    *cni.Network // with Docker's bridge it only runs DEL
	volumes    *volume.Store
	commands   *ociexec.Runner // nil with --exec-through-engine
	images     *image.Service
	logs       *logs.Service
	containers *container.Service
	sandboxes  *sandbox.Service
	stats      *stats.Collector
	streams    *streaming.Server
	plugins    *nri.Service // nil with --nri=disabled
	// ready says that the server has reported itself as ready to systemd, or is about to.
	ready atomic.Bool
	// recovered is closed after the recovery of interrupted work, or at the end of follow.
	recovered chan struct{}
	// logsRecovered is closed when pods are repaired, and the logs of containers that ended while no server ran are
	// complete. It is also closed after logsPatience, if a disk hangs, and at the end of follow.
	logsRecovered chan struct{}
}

// build makes all parts. It uses the disk but not the engine, which may come up later.
func build(ctx context.Context, cfg config.Config, metrics *telemetry.Metrics) (_ *services, err error) {
	r := &services{recovered: make(chan struct{}), logsRecovered: make(chan struct{})}
	r.inForce.Store(&cfg)
	defer func() {
		if err != nil {
			r.close(ctx)
		}
	}()
	r.engine, err = docker.Dial(docker.Options{
		Host:           cfg.DockerEndpoint,
		RequestTimeout: time.Duration(cfg.RuntimeRequestTimeout),
		OCIRuntime:     docker.OCIRuntimeMode(cfg.OCIRuntime),
		Bridge:         cfg.Bridge(),
		LogDriver:      translate.LogDriver(cfg.ContainerLogMode == config.LogModeSymlink),
		Observe:        metrics.EngineCall,
	})
	if err != nil {
		return nil, err
	}
	if r.store, err = checkpoint.Open(cfg.RecordsDir()); err != nil {
		return nil, err
	}
	r.network, err = cni.New(cni.Options{
		ConfDir:  cfg.CNIConfDir,
		BinDirs:  cfg.BinDirs(),
		CacheDir: cfg.CacheDir(),
		DelOnly:  cfg.NetworkPlugin != config.NetworkCNI,
		Timeout:  time.Duration(cfg.RuntimeRequestTimeout),
		Observe:  metrics.CNIOperation,
	})
	if err != nil {
		return nil, err
	}
	artifacts, err := artifact.Open(ctx,
		artifact.Options{Root: filepath.Join(cfg.RootDirectory, "artifacts"), Certs: registryCerts})
	if err != nil {
		return nil, err
	}
	volumes := filepath.Join(cfg.RootDirectory, "image-volumes")
	r.volumes, err = volume.Open(volume.Options{Root: volumes, Engine: r.engine, Artifacts: artifacts})
	if err != nil {
		return nil, err
	}
	if !cfg.ExecThroughEngine {
		if r.commands, err = ociexec.New(filepath.Join(cfg.RootDirectory, "commands")); err != nil {
			return nil, err
		}
	}
	r.images, err = image.New(image.Options{
		Engine:               artifact.Engine{Engine: r.engine, Store: artifacts},
		Kept:                 []string{artifacts.Root(), volumes},
		Mounted:              r.volumes.Mounted,
		PodImages:            func() map[string]bool { return r.cache.Snapshot().PodImages() },
		Foreign:              translate.OfNoPod,
		SandboxImage:         cfg.SandboxImage,
		CredentialsFile:      rootCredentials,
		PullProgressDeadline: time.Duration(cfg.ImagePullProgressDeadline),
		ObservePull:          metrics.Pull,
		Trust:                imagePolicy(cfg),
	})
	if err != nil {
		return nil, err
	}
	r.logs = logs.New(logs.Options{ObserveBatch: metrics.LogBatch})
	r.stats, err = stats.New(stats.Options{MetricGroups: cfg.MetricGroups(), Sandboxes: podSandboxes{r.engine}})
	if err != nil {
		return nil, fmt.Errorf("--cri-metrics: %w", err)
	}
	r.migration = newMigration(cfg, r.engine, r.store)
	r.cache = r.newCache(cfg, metrics)
	if r.plugins, err = r.newPlugins(cfg); err != nil {
		return nil, err
	}
	r.wire(cfg, sandbox.NewFiles(filepath.Join(cfg.RootDirectory, "files")))
	r.streams, err = r.newStreams(cfg)
	return r, err
}

// newStreams listens for streaming clients.
func (r *services) newStreams(cfg config.Config) (*streaming.Server, error) {
	return streaming.Listen(streaming.Options{
		Runtime:        streamRuntime{containers: r.containers, cache: r.cache, sandboxes: podSandboxes{r.engine}},
		Address:        cfg.StreamingBindAddr,
		CertFile:       cfg.StreamingTLSCertFile,
		KeyFile:        cfg.StreamingTLSKeyFile,
		AllowPlaintext: cfg.StreamingAllowPlaintext,
		IdleTimeout:    time.Duration(cfg.StreamingIdleTimeout),
	})
}

// imagePolicy returns the verifier of images, nil without a policy.
func imagePolicy(cfg config.Config) *trust.Verifier {
	if cfg.ImagePolicy == "" {
		return nil
	}
	return trust.New(trust.Options{
		Policy: cfg.ImagePolicy,
		Kept:   filepath.Join(cfg.RootDirectory, "image-signatures"),
		Certs:  registryCerts,
	})
}

// newPlugins connects NRI plugins, nil without NRI.
func (r *services) newPlugins(cfg config.Config) (*nri.Service, error) {
	if cfg.NRI != config.NRIEnabled {
		return nil, nil
	}
	plugins, err := nri.New(nri.Options{
		Engine: r.engine, Cache: r.cache, Version: version, ReadCDI: translate.ReadCDIDevices,
		Socket: cfg.NRISocket, PluginDir: cfg.NRIPluginDir, ConfigDir: cfg.NRIPluginConfigDir,
		Claim: func() error { return replaceStale("--nri-socket", cfg.NRISocket) },
	})
	if err != nil {
		return nil, fmt.Errorf("--nri: %w", err)
	}
	return plugins, nil
}

// newCache makes the cache of pods and containers. With --migrate=cri-dockerd, the cache adopts the pods of
// cri-dockerd.
func (r *services) newCache(cfg config.Config, metrics *telemetry.Metrics) *state.Cache {
	root := filepath.Clean(cfg.RootDirectory)
	options := state.Options{
		Engine:         r.engine,
		Records:        r.store,
		RootDirectory:  root,
		Alive:          sandbox.Alive,
		Unrecorded:     func() []checkpoint.Record { return sandbox.Unrecorded(root) },
		ObserveEvent:   metrics.Event,
		Connected:      r.images.Relist,
		ImageChanged:   r.images.Changed,
		ForeignChanged: r.images.ForeignChanged,
	}
	if cfg.Migrate == config.MigrateCRIDockerd {
		options.Adopt = r.migration.Adopt
	}
	return state.New(options)
}

// wire makes the container and the sandbox service, which need most of the other services.
func (r *services) wire(cfg config.Config, files *sandbox.Files) {
	containerOptions := container.Options{
		Engine:  r.engine,
		Cache:   r.cache,
		Store:   r.store,
		Images:  r.images,
		Cgroups: r.stats,
		Logs:    r.logs,
		Files:   files.Of,

		Commands:  r.commands,
		Sandboxes: podSandboxes{r.engine},

		ImageVolumes:  r.volumes,
		RootDirectory: filepath.Clean(cfg.RootDirectory),
		LinkLogs:      cfg.ContainerLogMode == config.LogModeSymlink,
		LogBufferSize: cfg.LogBufferBytes(),

		RuntimeAnnotations: cfg.AnnotationPatterns(),
	}
	if r.plugins != nil {
		containerOptions.Plugins = r.plugins
	}
	r.containers = container.New(containerOptions)
	r.cache.OnExit(r.containers.FinishExit)
	r.cache.OnOOM(r.containers.SaveOOM)
	opts := sandbox.Options{
		Engine:     r.engine,
		Cache:      r.cache,
		Store:      r.store,
		Network:    r.network,
		Images:     r.images,
		Containers: r.containers,
		Files:      files,
		Cgroups:    r.stats,
		Forget:     r.migration.Forget,

		RootDirectory: filepath.Clean(cfg.RootDirectory),
		EngineBridge:  cfg.NetworkPlugin != config.NetworkCNI,
		NetworkGC:     cfg.CNIGC,

		WithoutContainers: cfg.SandboxContainer == config.SandboxContainerNeeded,
	}
	if r.plugins != nil {
		opts.Plugins = r.plugins
	}
	r.sandboxes = sandbox.New(opts)
}

func (r *services) server(cfg config.Config, metrics *telemetry.Metrics) *server.Server {
	started := time.Now()
	opts := server.Options{
		Cache:          r.cache,
		Engine:         r.engine,
		Sandboxes:      r.sandboxes,
		Containers:     r.containers,
		Images:         r.images,
		Stats:          r.stats,
		Streams:        r.streams,
		Recovered:      r.logsRecovered,
		Observe:        metrics.RPC,
		RequestTimeout: time.Duration(cfg.RuntimeRequestTimeout),
		Config:         func() any { return r.inForce.Load() },
		Report:         func(ctx context.Context) any { return report(ctx, started, r, metrics) },
		Warnings:       r.warnings,
	}
	if cfg.NetworkPlugin == config.NetworkCNI {
		opts.Network = r.network
	}
	return server.New(opts)
}

// warnings returns the operator's warnings for a verbose Status.
func (r *services) warnings(ctx context.Context) []string {
	listing, err := r.store.List(ctx)
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	for _, q := range listing.Quarantined {
		texts = append(texts,
			fmt.Sprintf("the checkpoint of pod sandbox %s was corrupt and is kept as %s: %v", q.SandboxID, q.Path,
				q.Reason))
	}
	return texts
}

// logsPatience bounds the clients' wait for logs of containers that ended while no server ran, because a disk may hang.
const logsPatience = 5 * time.Second

// follow keeps the caches of pods and images up to date until ctx ends. After the first relist it finishes work that a
// crash interrupted. It watches containers that other programs start.
func (r *services) follow(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() {
		recovered := sync.OnceFunc(func() { close(r.recovered) })
		defer recovered()
		logsRecovered := sync.OnceFunc(func() { close(r.logsRecovered) })
		defer logsRecovered()
		if r.cache.WaitSynced(ctx) != nil {
			return
		}
		if r.plugins != nil {
			group.Go(func() { r.plugins.Run(ctx, r.containers) })
		}
		defer time.AfterFunc(logsPatience, logsRecovered).Stop()
		// A log disk may hang for longer than logsPatience, so the pods come first.
		err := errors.Join(r.sandboxes.Repair(ctx), r.containers.Recover(ctx))
		logsRecovered()
		group.Go(func() { _ = r.containers.Watch(ctx) }) // ends with ctx, and only then
		err = errors.Join(err, r.sandboxes.Recover(ctx))
		if err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Error("cannot recover all pods")
		}
		recovered()
		r.sandboxes.CollectOrphans(ctx)
	})
	group.Go(func() { _ = r.images.Run(ctx) }) // ends only with ctx
	_ = r.cache.Run(ctx)                       // ends only with ctx
	group.Wait()
}

// endStreams ends the streaming sessions. Their commands get SIGHUP.
func (r *services) endStreams(ctx context.Context) {
	if r.streams == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := r.streams.Close(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("streaming sessions did not end in time")
	}
}

// close ends the parts in the order of their dependencies. So the sandbox service can still roll back set-ups, and the
// log service can still save its positions.
func (r *services) close(ctx context.Context) {
	r.endStreams(ctx)
	if r.commands != nil {
		r.commands.Close()
	}
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
		r.network.Close()
	}
	if r.engine != nil {
		if err := r.engine.Close(); err != nil {
			log.G(ctx).WithError(err).Warn("cannot close connections to engine")
		}
	}
}
