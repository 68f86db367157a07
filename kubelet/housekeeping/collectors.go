package housekeeping

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/kuberuntime"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// GCOptions say what is collected.
type GCOptions struct {
	// Containers is how often dead containers are collected; zero means a minute. Of each container DeadPerContainer
	// attempts are kept; zero means one.
	Containers       time.Duration
	deadPerContainer int
	// Images is how often images are looked at; zero means five minutes. Above HighPercent of the disk the longest
	// unused are removed until LowPercent; HighPercent 100 means never, zero means 85, LowPercent zero means 80.
	Images                  time.Duration
	HighPercent, LowPercent int
	// AllImages removes all unused images, not only those that this kubelet pulled.
	AllImages bool
	// ImageMinAge is how long an image must have been known; zero means two minutes.
	ImageMinAge time.Duration
}

// LogOptions say how container logs are rotated.
type LogOptions struct {
	// MaxSize is the size in bytes from which a log is rotated; zero means 10 MiB. MaxFiles is how many are kept, the
	// current one included; zero means 5.
	MaxSize  int64
	MaxFiles int
	// Check is how often sizes are looked at; zero means ten seconds.
	Check time.Duration
}

// CollectorsOptions configure Collectors. All are required.
type CollectorsOptions struct {
	Runtime    *cri.Runtime
	Cache      *pleg.Cache
	RuntimeErr func() error // why nothing may be changed now
	PodConfig  PodConfig
	Workers    *podworkers.Workers
	PodLogsDir string
	Pulled     *imagemanager.Pulled
	GC         GCOptions
	Logs       LogOptions
}

// Collectors keep the disk free. RemoveDead and RemoveImages are safe for concurrent use, also beside Run.
type Collectors struct {
	opts   CollectorsOptions
	dead   *kuberuntime.Collector
	unused *imagemanager.Collector
}

// NewCollectors makes Collectors; the zero values of their options are filled in.
func NewCollectors(opts CollectorsOptions) *Collectors {
	setDefault(&opts.GC.Containers, time.Minute)
	setDefault(&opts.GC.deadPerContainer, 1)
	setDefault(&opts.GC.Images, 5*time.Minute)
	setDefault(&opts.GC.HighPercent, 85)
	setDefault(&opts.GC.LowPercent, min(80, opts.GC.HighPercent))
	setDefault(&opts.GC.ImageMinAge, 2*time.Minute)
	setDefault(&opts.Logs.MaxSize, 10<<20)
	setDefault(&opts.Logs.MaxFiles, 5)
	setDefault(&opts.Logs.Check, 10*time.Second)
	c := &Collectors{opts: opts}
	c.dead = &kuberuntime.Collector{Runtime: opts.Runtime, PodLogsDir: opts.PodLogsDir, Keep: opts.GC.deadPerContainer}
	c.unused = imagemanager.NewCollector(imagemanager.CollectorOptions{
		Images: opts.Runtime.Images, Containers: opts.Runtime, MinAge: opts.GC.ImageMinAge,
		HighPercent: opts.GC.HighPercent, LowPercent: opts.GC.LowPercent, Pulled: c.removable(),
	})
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// removable are the images that may be removed; nil stands for all.
func (c *Collectors) removable() *imagemanager.Pulled {
	if c.opts.GC.AllImages {
		return nil
	}
	return c.opts.Pulled
}

// Run collects garbage and rotates logs until ctx ends, and returns nil then.
func (c *Collectors) Run(ctx context.Context) error {
	logs := &kuberuntime.Rotator{Runtime: c.opts.Runtime, Pods: c.opts.Cache.All, MaxSize: c.opts.Logs.MaxSize, MaxFiles: c.opts.Logs.MaxFiles}
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		c.every(ctx, c.opts.GC.Containers, "container garbage collection failed", func(ctx context.Context) error {
			return c.dead.Collect(ctx, c.mayExist())
		})
	})
	loops.Go(func() { c.every(ctx, c.opts.GC.Images, "image garbage collection failed", c.unused.Collect) })
	loops.Go(func() { c.every(ctx, c.opts.Logs.Check, "log rotation failed", logs.Rotate) })
	return nil
}

// RemoveDead removes all containers of pods that are over, with their logs; those that sources still list are among
// them. A static pod keeps its newest ones: without them the next process would take it for one that never ran.
func (c *Collectors) RemoveDead(ctx context.Context) error {
	if err := c.opts.RuntimeErr(); err != nil {
		return err
	}
	mayExist := c.mayExist()
	return c.dead.Collect(ctx, func(uid types.UID) bool {
		pod := c.opts.Workers.Pod(uid)
		over := pod != nil && !model.IsStatic(pod) && c.opts.Workers.Finished(uid)
		return mayExist(uid) && !over
	})
}

// RemoveImages removes all unused images that Run may remove some of.
func (c *Collectors) RemoveImages(ctx context.Context) error {
	if err := c.opts.RuntimeErr(); err != nil {
		return err
	}
	return c.unused.RemoveUnused(ctx)
}

// mayExist says of which pods something is to be kept. Before all sources have been seen that is every one: of each the
// newest dead attempts stay, and what is older goes, or a node that starts offline would fill its disk. After that it is
// those that are known and those that are listed: the sync loop may not have handled them yet.
func (c *Collectors) mayExist() func(types.UID) bool {
	if !c.opts.PodConfig.SeenAllSources() {
		return func(types.UID) bool { return true }
	}
	return func(uid types.UID) bool { return c.opts.Workers.Has(uid) || c.opts.PodConfig.HasPod(uid) }
}

// every does something again and again while the runtime is ready.
func (c *Collectors) every(ctx context.Context, period time.Duration, failed string, do func(context.Context) error) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.opts.RuntimeErr() != nil {
			continue
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn(failed)
		}
	}
}
