package housekeeping

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/kuberuntime"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// GCOptions configure garbage collection.
type GCOptions struct {
	// Containers is the period of collecting dead containers; zero means a minute. deadPerContainer dead attempts of
	// each container are kept; zero means one.
	Containers       time.Duration
	deadPerContainer int
	// Images is the period of collecting images; zero means five minutes. When HighPercent of the disk is in use, the
	// longest unused images are removed, until only LowPercent is in use. HighPercent 100 means never, and zero means
	// 85. LowPercent zero means 80, or HighPercent if that is lower.
	Images                  time.Duration
	HighPercent, LowPercent int
	// AllImages removes all unused images, not only images that this kubelet pulled.
	AllImages bool
	// ImageMinAge is how long an image must have been present before it is removed; zero means two minutes.
	ImageMinAge time.Duration
}

// Check refuses thresholds that are no percentages, and a low threshold above the high one. Zero means the default.
func (o GCOptions) Check() error {
	o = o.withDefaults()
	if o.LowPercent < 0 || o.LowPercent > o.HighPercent || o.HighPercent > 100 {
		return fmt.Errorf("image garbage collection: the high threshold is %d, want at most 100; the low threshold is "+
			"%d, want 0 to the high threshold", o.HighPercent, o.LowPercent)
	}
	return nil
}

func (o GCOptions) withDefaults() GCOptions {
	o.Containers = cmp.Or(o.Containers, time.Minute)
	o.deadPerContainer = cmp.Or(o.deadPerContainer, 1)
	o.Images = cmp.Or(o.Images, 5*time.Minute)
	o.HighPercent = cmp.Or(o.HighPercent, 85)
	o.LowPercent = cmp.Or(o.LowPercent, min(80, o.HighPercent))
	o.ImageMinAge = cmp.Or(o.ImageMinAge, 2*time.Minute)
	return o
}

// LogOptions configure log rotation.
type LogOptions struct {
	// MaxSize is the size in bytes from which a log is rotated; zero means 10 MiB. MaxFiles is the number of logs per
	// container, including the current one; zero means 5.
	MaxSize  int64
	MaxFiles int
	// Check is the period of checking sizes; zero means ten seconds.
	Check time.Duration
}

// CollectorsOptions configure Collectors. All but Event are required.
type CollectorsOptions struct {
	Runtime    *cri.Runtime
	Cache      *pleg.Cache
	RuntimeErr func() error // why the runtime cannot be used, or nil
	PodConfig  PodConfig
	Workers    *podworkers.Workers
	PodLogsDir string
	Pulled     *imagemanager.Pulled
	Access     *imagemanager.Access
	GC         GCOptions
	Logs       LogOptions
	// Event records an event of the node. Nil records none.
	Event func(warning bool, reason, message string)
}

// Collectors keep the disk free. RemoveDead and RemoveImages are safe for concurrent use, also during Run.
type Collectors struct {
	opts   CollectorsOptions
	dead   *kuberuntime.Collector
	unused *imagemanager.Collector
}

// NewCollectors makes Collectors, with defaults for zero values.
func NewCollectors(opts CollectorsOptions) *Collectors {
	opts.GC = opts.GC.withDefaults()
	opts.Logs.MaxSize = cmp.Or(opts.Logs.MaxSize, 10<<20)
	opts.Logs.MaxFiles = cmp.Or(opts.Logs.MaxFiles, 5)
	opts.Logs.Check = cmp.Or(opts.Logs.Check, 10*time.Second)
	if opts.Event == nil {
		opts.Event = func(bool, string, string) {}
	}
	c := &Collectors{opts: opts}
	c.dead = &kuberuntime.Collector{Runtime: opts.Runtime, PodLogsDir: opts.PodLogsDir, Keep: opts.GC.deadPerContainer,
		Finished: opts.Workers.Finished}
	c.unused = imagemanager.NewCollector(imagemanager.CollectorOptions{
		Images: opts.Runtime.Images, Containers: opts.Runtime, MinAge: opts.GC.ImageMinAge,
		HighPercent: opts.GC.HighPercent, LowPercent: opts.GC.LowPercent, Pulled: c.removable(),
		Access: opts.Access, Event: opts.Event,
	})
	return c
}

// removable are the images that may be removed; nil means all.
func (c *Collectors) removable() *imagemanager.Pulled {
	if c.opts.GC.AllImages {
		return nil
	}
	return c.opts.Pulled
}

// Run collects garbage and rotates logs until ctx ends, and returns nil then.
func (c *Collectors) Run(ctx context.Context) error {
	logs := &kuberuntime.Rotator{Runtime: c.opts.Runtime, Pods: c.opts.Cache.All, MaxSize: c.opts.Logs.MaxSize,
		MaxFiles: c.opts.Logs.MaxFiles}
	var loops sync.WaitGroup
	defer loops.Wait()
	for _, t := range []task{
		{period: c.opts.GC.Containers, failed: "container garbage collection failed", event: "ContainerGCFailed",
			do: func(ctx context.Context) error { return c.dead.Collect(ctx, c.mayExist()) }},
		{period: c.opts.GC.Images, failed: "image garbage collection failed", event: "ImageGCFailed", tolerated: 1,
			do: c.unused.Collect},
		{period: c.opts.Logs.Check, failed: "log rotation failed", do: logs.Rotate},
	} {
		loops.Go(func() { c.repeat(ctx, t) })
	}
	return nil
}

// task is repeated each period.
type task struct {
	period time.Duration
	// failed is the log message of a failure. event is the reason of its event, as in the kubelet; empty means none.
	failed, event string
	// tolerated is how many failures in a row cause no event.
	tolerated int
	do        func(ctx context.Context) error
}

// RemoveDead collects dead containers. It removes all containers of finished pods, with their logs, even if a source
// lists the pod. A static pod keeps its newest containers: without them, the pod would run again after a restart of the
// kubelet.
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

// RemoveImages removes all unused images that may be removed.
func (c *Collectors) RemoveImages(ctx context.Context) error {
	if err := c.opts.RuntimeErr(); err != nil {
		return err
	}
	return c.unused.RemoveUnused(ctx)
}

// mayExist returns which pods keep their newest dead containers. Until all sources have been seen, these are all pods.
// Older dead containers go even then, so that a node that starts offline does not fill its disk. After all sources have
// been seen, pods with a worker and listed pods keep theirs. The sync loop may not have handled a listed pod yet.
func (c *Collectors) mayExist() func(types.UID) bool {
	if !c.opts.PodConfig.SeenAllSources() {
		return func(types.UID) bool { return true }
	}
	return func(uid types.UID) bool { return c.opts.Workers.Has(uid) || c.opts.PodConfig.HasPod(uid) }
}

// repeat does a task at the start and then each period, while the runtime is ready.
func (c *Collectors) repeat(ctx context.Context, t task) {
	failures := 0 // in a row
	for {
		pause := t.period
		if c.opts.RuntimeErr() != nil {
			pause = min(t.period, runtimePause)
		} else if err := t.do(ctx); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn(t.failed)
			if failures++; t.event != "" && failures > t.tolerated {
				c.opts.Event(true, t.event, brief(err))
			}
		}
		if pace.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// brief returns the text of an event for joined errors: the first line in alphabetical order, and the number of other
// lines. The log has all lines. The errors of a collection come in any order. The alphabetical order gives equal
// failures equal texts, so that their events are counted as one.
func brief(err error) string {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%s (more failures in the log: %d)", slices.Min(lines), len(lines)-1)
}

// runtimePause is the time between two looks at a runtime that is not ready.
const runtimePause = time.Second
