package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/badplugins"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/footprint"
	"github.com/criadapter/criadapter/test/rig/inventory"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/soak/history"
)

// diskSize is the size of each disk: for the kubelet, for the logs of pods and for criadapter.
const diskSize = 128 << 20

// kubeletConfig makes logs rotate often, and pods come back soon after a fault.
const kubeletConfig = `containerLogMaxSize: 256Ki
containerLogMaxFiles: 100
evictionPressureTransitionPeriod: 5s
nodeStatusUpdateFrequency: 5s
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 20s}
`

// healed is how long after its end a fault may still have effects.
const healed = 15 * time.Second

// soaking is one run.
type soaking struct {
	opts      options
	env       rigenv.Env
	victims   victims
	histories *histories
	stock     inventory.Node
	metrics   *footprint.Metrics
	result    *result

	undo []func(context.Context) error
}

// soak is the part of the program that runs inside the rig.
func soak(ctx context.Context, env rigenv.Env, opts options) (err error) {
	s := &soaking{opts: opts, env: env, result: newResult(opts)}
	defer func() {
		for i := len(s.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, s.undo[i](context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{s.startEngine, s.startCluster, s.observe} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	empty, err := s.emptyNode(ctx)
	if err != nil {
		return fmt.Errorf("before the workload: %w", err)
	}
	failed := s.faults(ctx)
	left, err := s.end(ctx, empty)
	s.result.print(os.Stdout, s.histories)
	if err := errors.Join(failed, left, err); err != nil {
		return fmt.Errorf("%w\nSEED=%d repeats the schedule; the logs of all programs are in %s", err, s.opts.seed,
			s.opts.report)
	}
	return nil
}

// startEngine starts the engine that gets the faults, and makes the CNI plugins that fail.
func (s *soaking) startEngine(ctx context.Context) (err error) {
	s.victims.engine, err = engine.Launch(ctx, engine.Options{
		Env:    s.env,
		Config: map[string]any{"live-restore": true, "cgroup-parent": s.env.Cgroup()},
	})
	if err != nil {
		return err
	}
	log := s.victims.engine.LogPath()
	keepLog := func(context.Context) error {
		return program.KeepFiles(s.opts.report, filepath.Dir(log), filepath.Base(log))
	}
	s.undo = append(s.undo, s.victims.engine.Close, keepLog)
	s.env = s.victims.engine.Use(s.env)
	s.victims.memoryGroup = filepath.Join(s.env.Cgroup(), "little-memory")
	if s.victims.hungDir, err = os.MkdirTemp(s.env.WorkDir, "hung"); err != nil {
		return err
	}
	s.victims.plugins, err = badplugins.New(s.env.WorkDir, s.env.CNIBinDir)
	return err
}

func (s *soaking) startCluster(ctx context.Context) error {
	programs, err := build.ClusterFromEnviron(os.Getenv)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.opts.report, 0o755); err != nil {
		return err
	}
	c, err := single.Start(ctx, single.Options{
		Env: s.env, Programs: programs, Server: single.Criadapter, ReportDir: s.opts.report,
		KubeletConfig: kubeletConfig,
		Flags:         []string{"--cni-bin-dir=" + s.victims.plugins.Dir}, Disk: diskSize,
	})
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func(context.Context) error { return c.Close() })
	s.victims.cluster = c
	s.metrics = c.Server.Metrics
	s.stock = inventory.Node{Env: s.env, Server: c.Server.Adapter, Cgroup: c.Cgroup(), Dirs: map[string]string{
		"pod's directory": filepath.Join(c.KubeletRoot, "pods"), "container log": c.PodLogs,
		"link to a log": "/var/log/containers",
	}}
	return nil
}

// observe starts both observers.
func (s *soaking) observe(ctx context.Context) error {
	work, err := newWorkload(s.victims.cluster, s.env)
	if err != nil {
		return err
	}
	s.victims.workload = work
	watched, err := watchEngine(context.WithoutCancel(ctx), s.env.DockerHost)
	if err != nil {
		return err
	}
	pods := watchPods(context.WithoutCancel(ctx), work.client.CoreV1().Pods(namespace))
	s.undo = append(s.undo, func(context.Context) error {
		pods.close()
		return watched.close()
	})
	c := s.victims.cluster
	s.histories = &histories{engine: watched, pods: pods, workload: work, logs: newLogs(c.KubeletRoot, c.PodLogs)}
	return nil
}

// faults runs the workload and makes faults until the time is over or a difference lasts.
func (s *soaking) faults(ctx context.Context) (err error) {
	within := time.Duration(s.opts.hours * float64(time.Hour))
	plan := filepath.Join(s.opts.report, "schedule.txt")
	if err := os.WriteFile(plan, []byte(planned(s.opts.seed, within)), 0o644); err != nil {
		return err
	}
	if err := s.histories.workload.begin(ctx, s.victims.cluster.Plane.Dir); err != nil {
		return err
	}
	if err := s.checkpoint(ctx); err != nil {
		return fmt.Errorf("the workload before the first fault: %w", err)
	}
	end := time.Now().Add(within)
	say("SEED=%d: faults until %s as in %s", s.opts.seed, end.Format(time.TimeOnly), plan)
	changing := startChurn(ctx, s.histories.workload, s.opts.seed)
	defer func() { err = errors.Join(err, changing.stop()) }()
	stopTelling := s.tell()
	defer stopTelling()
	for f := range schedule(s.opts.seed) {
		if time.Now().Add(f.Calm + f.Lasts).After(end) {
			return nil
		}
		if err := s.fault(ctx, f, changing); err != nil {
			return fmt.Errorf("fault %v: %w", f, err)
		}
	}
	return nil
}

// fault waits, makes a fault, and waits until the node has recovered.
func (s *soaking) fault(ctx context.Context, f fault, changing *churn) error {
	if err := pace.Sleep(ctx, f.Calm); err != nil {
		return err
	}
	say("fault %d: %s for %v (SEED=%d)", f.Number, f.Kind, f.Lasts, s.opts.seed)
	from := time.Now()
	if f.Kind == engineKilled || f.Kind == engineEnded {
		s.histories.engineEnds = append(s.histories.engineEnds, from)
	}
	if err := s.victims.hurt(ctx, f); errors.Is(err, errNoMemoryController) {
		say("fault %d is left out: %v", f.Number, err)
		return nil
	} else if err != nil {
		return err
	}
	to := time.Now()
	s.histories.faults = append(s.histories.faults, history.Window{From: from, To: to.Add(healed)})
	s.result.fault(f.Kind)
	changing.hold.Lock()
	defer changing.hold.Unlock()
	if err := s.checkpoint(ctx); err != nil {
		return err
	}
	say("fault %d: healed after %v, quiet %v later; nothing differs, of %d compared containers",
		f.Number, to.Sub(from).Round(time.Second), time.Since(to).Round(time.Second), s.histories.compareAll().Compared)
	return nil
}

// checkpoint waits until nothing differs and measures criadapter.
func (s *soaking) checkpoint(ctx context.Context) error {
	if err := s.histories.quiet(ctx); err != nil {
		return err
	}
	used, err := footprint.Sample(ctx, s.victims.cluster.Server.Adapter, s.metrics)
	s.result.checkpoint(used)
	return err
}

// tell prints the progress each minute until stop is called.
func (s *soaking) tell() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // stop ends it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pace.Sleep(ctx, time.Minute) == nil {
			say("%s", progress(s.histories, s.result.faultsSoFar()))
		}
	}()
	return func() { cancel(); <-ended }
}

// say prints a line with the time.
func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
