package nri

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/nri/pkg/adaptation"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/state"
)

// runtimeName is the runtime's name for plugins.
const runtimeName = "criadapter"

// Engine is the part of docker.Engine that this package uses.
type Engine interface {
	InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error)
	UpdateContainer(ctx context.Context, id string, resources container.Resources) error
	// Adjustment returns the adjustments of plugins to a container, nil for none.
	Adjustment(ctx context.Context, id string) (*ocinote.Adjustment, error)
}

// Containers changes containers.
type Containers interface {
	// Limit changes limits of a container, without asking plugins.
	Limit(ctx context.Context, id string, limits *runtimeapi.LinuxContainerResources) error
}

// Options are the options of New. All fields are required.
type Options struct {
	Engine Engine
	Cache  *state.Cache
	// Socket is the path of the unix socket for plugins. Plugins in PluginDir are started, with configurations in
	// ConfigDir.
	Socket, PluginDir, ConfigDir string
	// Claim removes a stale socket at Socket's path. It fails if another program serves at the path, or if the file
	// there is not a socket. NRI's library would remove the file in either case.
	Claim func() error
	// Version is the runtime's version for plugins.
	Version string
	// ReadCDI reads CDI devices.
	ReadCDI translate.ReadCDI
}

// Service connects plugins with the node. All methods are safe for concurrent use. Plugins are asked one after the
// other, for one event at a time. A plugin has two seconds for each answer. A plugin that takes longer, or whose
// connection ends, is dropped, unless its failure policy says otherwise.
type Service struct {
	opts       Options
	adaptation *adaptation.Adaptation
	containers Containers
	// plugins is the number of connected plugins.
	plugins atomic.Int64
	// started is closed when the plugins of PluginDir have started, or when NRI has failed to start. failed is the
	// error of a failed start.
	started  chan struct{}
	failed   error
	reported reported
}

// setLibraryLog sends the library's log to ours. The library has one log for all services, and reads it without a lock.
var setLibraryLog = sync.OnceFunc(func() { nrilog.Set(logger{}) })

// New makes the service. It runs no plugin.
func New(opts Options) (*Service, error) {
	setLibraryLog()
	s := &Service{opts: opts, started: make(chan struct{})}
	var err error
	s.adaptation, err = adaptation.New(runtimeName, opts.Version, s.synchronize, s.update,
		adaptation.WithSocketPath(opts.Socket), adaptation.WithPluginPath(opts.PluginDir),
		adaptation.WithPluginConfigPath(opts.ConfigDir), adaptation.WithMetrics(counter{s}))
	return s, err
}

// Run starts the plugins of PluginDir and accepts others, until ctx ends. Call it once, when the cache has the node's
// pods. Events wait until Run has started NRI. After a failed start, every event fails, because a plugin might have
// refused a container.
func (s *Service) Run(ctx context.Context, containers Containers) {
	s.containers = containers
	first := s.opts.Cache.Snapshot()
	err := s.opts.Claim()
	if err == nil {
		err = s.adaptation.Start()
	}
	if err == nil {
		if err = os.Chmod(s.opts.Socket, 0o600); err != nil {
			s.adaptation.Stop()
		}
	}
	if err != nil {
		s.failed = fmt.Errorf("NRI cannot start, so no pod or container can be made; remove the cause or set nri: "+
			"disabled: %w: %w", err, errdefs.ErrUnavailable)
		log.G(ctx).WithError(err).Error("cannot start NRI")
	}
	close(s.started)
	s.watch(ctx, first)
	s.adaptation.Stop()
}

// ready waits until plugins can be asked.
func (s *Service) ready(ctx context.Context) error {
	select {
	case <-s.started: // even if ctx has ended
		return s.failed
	default:
	}
	select {
	case <-s.started:
		return s.failed
	case <-ctx.Done():
		return fmt.Errorf("waiting for the start of NRI: %w", ctx.Err())
	}
}

// asks reports whether there is a plugin to ask. Without a plugin, callers need not describe pods and containers.
func (s *Service) asks(ctx context.Context) (bool, error) {
	err := s.ready(ctx)
	return err == nil && s.plugins.Load() > 0, err
}

// hasAsked reports whether a plugin is connected that the service may have asked. It does not wait for the start of the
// plugins.
func (s *Service) hasAsked() bool {
	select {
	case <-s.started:
		return s.plugins.Load() > 0
	default:
		return false
	}
}

// Block keeps new plugins from joining until the returned function is called. Between Block and unblock the caller
// makes or removes one pod or container. So a new plugin either has that pod or container in its first list, or hears
// of it later.
func (s *Service) Block() (unblock func()) { return s.adaptation.BlockPluginSync().Unblock }

// counter keeps the number of plugins.
type counter struct{ s *Service }

// RecordPluginInvocation implements adaptation.Metrics.
func (counter) RecordPluginInvocation(_, _ string, _ error) {}

// RecordPluginLatency implements adaptation.Metrics.
func (counter) RecordPluginLatency(_, _ string, _ time.Duration) {}

// RecordPluginAdjustments implements adaptation.Metrics. It warns of evictions that a plugin asks for, because the
// library's other calls do not report them.
func (counter) RecordPluginAdjustments(plugin, operation string, _ *adaptation.ContainerAdjustment, _, evicts int) {
	if evicts > 0 {
		log.L.WithFields(log.Fields{"component": "nri", "plugin": plugin, "call": operation}).
			Warn("an NRI plugin asked for evictions, which are not supported; the containers run on")
	}
}

// UpdatePluginCount implements adaptation.Metrics.
func (c counter) UpdatePluginCount(n int) { c.s.plugins.Store(int64(n)) }

// logger writes the library's lines.
type logger struct{}

func line() *log.Entry { return log.L.WithField("component", "nri") }

// Debugf implements the library's Logger.
func (logger) Debugf(_ context.Context, format string, args ...any) { line().Debugf(format, args...) }

// Infof implements the library's Logger.
func (logger) Infof(_ context.Context, format string, args ...any) { line().Infof(format, args...) }

// Warnf implements the library's Logger.
func (logger) Warnf(_ context.Context, format string, args ...any) { line().Warnf(format, args...) }

// Errorf implements the library's Logger.
func (logger) Errorf(_ context.Context, format string, args ...any) { line().Errorf(format, args...) }
