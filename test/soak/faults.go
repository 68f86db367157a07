package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/rig/badplugins"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// badCalls is the percentage of plugin calls that go wrong during a plugin fault.
const badCalls = 60

// refill is how often a full disk is filled again, because other programs remove files from it.
const refill = 200 * time.Millisecond

// victims are the parts of the node that faults affect.
type victims struct {
	cluster *single.Cluster
	engine  *engine.Engine
	plugins badplugins.Plugins
	// workload makes the pods with a volume on a hung mount, and the pods beside them.
	workload *workload
	// memoryGroup is the name of the cgroup for a criadapter with little memory, and hungDir the directory on which a
	// mount hangs.
	memoryGroup, hungDir string
}

// hurt causes a fault, waits for as long as it lasts, and repairs the node. The repair is made even when ctx has ended.
func (v victims) hurt(ctx context.Context, f fault) error {
	healing := context.WithoutCancel(ctx)
	server := v.cluster.Server.Adapter
	switch f.Kind {
	case serverKilled:
		server.Kill()
		return errors.Join(wait(ctx, f.Lasts), server.Start(healing))
	case engineKilled:
		v.engine.Kill()
		return errors.Join(wait(ctx, f.Lasts), v.engine.Start(healing))
	case engineEnded:
		return errors.Join(v.engine.Terminate(healing), wait(ctx, f.Lasts), v.engine.Start(healing))
	case engineStopped:
		return errors.Join(v.engine.Signal(syscall.SIGSTOP), wait(ctx, f.Lasts), v.engine.Signal(syscall.SIGCONT))
	case kubeletKilled:
		v.cluster.Kubelet().Kill()
		return errors.Join(wait(ctx, f.Lasts), v.cluster.LaunchKubelet())
	case pluginsFail:
		return v.plague(ctx, f, badplugins.CrashBefore, badplugins.CrashAfter, badplugins.ErrorAfter, badplugins.Twice)
	case pluginsHang:
		return v.plague(ctx, f, badplugins.Hang)
	case pluginsGarble:
		return v.plague(ctx, f, badplugins.Garbage)
	case logDiskFull:
		return v.choke(ctx, f, single.LogDisk)
	case kubeletDiskFull:
		return v.choke(ctx, f, single.KubeletDisk)
	case stateDiskFull:
		return v.choke(ctx, f, single.StateDisk)
	case pruneCron:
		return v.prune(ctx, f)
	case descriptorsFew:
		return v.fewDescriptors(ctx, f)
	case memoryShort:
		return v.littleMemory(ctx, f)
	case mountHangs:
		return v.hangMount(ctx, f)
	}
	return fmt.Errorf("no fault is called %q", f.Kind)
}

// plague makes CNI plugins fail during the fault.
func (v victims) plague(ctx context.Context, f fault, faults ...string) error {
	if err := v.plugins.Begin(f.Seed, badCalls, faults...); err != nil {
		return err
	}
	return errors.Join(wait(ctx, f.Lasts), v.plugins.End())
}

// choke keeps a disk full during the fault.
func (v victims) choke(ctx context.Context, f fault, disk string) (err error) {
	dir := v.cluster.Disks()[disk]
	defer func() { err = errors.Join(err, empty(dir)) }()
	for end := time.Now().Add(f.Lasts); time.Now().Before(end) && ctx.Err() == nil; _ = pace.Sleep(ctx, refill) {
		if err := fill(dir); err != nil {
			return err
		}
	}
	return nil
}

// wait is pace.Sleep without its error: the caller heals the node in any case.
func wait(ctx context.Context, d time.Duration) error {
	_ = pace.Sleep(ctx, d)
	return nil
}
