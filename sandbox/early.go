package sandbox

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/netns"
)

// A sandbox's network namespace exists when the engine's start is not half done (45 of 100 ms on Docker 20.10), and CNI
// ADD needs no more than that. So the pod is joined as soon as its first process is there: the process is found in the
// container's cgroup, and its namespace pinned and joined while the engine goes on. Where nothing is found the pod is
// joined after the start.

// Cgroups tells where the processes of a container are listed; *stats.Collector does.
type Cgroups interface {
	// ProcsFile returns the file that lists the processes of a container that is
	// about to start, empty when that is not known.
	ProcsFile(driver, parent, id string) string
	// ParentDirs returns the directories of the cgroup that is a container's parent, by controller of version 1, or
	// under "" for version 2; none where they cannot be seen.
	ParentDirs(driver, parent string) map[string]string
}

// The kernel does not report when a namespace is made, so it is looked for, with a pause between two looks that grows
// with the time waited: a pod is joined late by a small part of what its start took anyway, and pods that wait for a
// hanging engine cost it next to nothing.
const (
	minLookPause  = time.Millisecond
	maxLookPause  = 100 * time.Millisecond
	lookPauseRate = 16 // the time waited over the pause
)

func lookPause(waited time.Duration) time.Duration {
	return min(max(waited/lookPauseRate, minLookPause), maxLookPause)
}

// earlyJoin is a pod that is joined to its network while its sandbox starts.
type earlyJoin struct {
	cancel  context.CancelFunc
	started chan struct{} // closed when the engine's start is over
	done    chan struct{}
	joined  joined // set before done is closed
}

// joinEarly begins to join a pod. noted is closed when its intent is on disk, before which nothing may be held for it.
// The caller ends the looking with startReturned, and must wait.
func (h containerHolder) joinEarly(ctx context.Context, p *pending, noted <-chan struct{}) *earlyJoin {
	e := &earlyJoin{cancel: func() {}, started: make(chan struct{}), done: make(chan struct{})}
	file := h.procsFile(p)
	if file == "" {
		close(e.done)
		return e
	}
	ctx, e.cancel = context.WithCancel(ctx)
	path, pod := p.record.NetnsPath, cniPod(p.record, p.config)
	go func() {
		defer close(e.done)
		select {
		case <-noted:
		case <-e.started:
			return
		}
		if pid := e.look(ctx, file); pid != 0 {
			e.joined = h.s.join(ctx, path, pod, pid)
		}
	}()
	return e
}

// procsFile is where the pod's processes will be listed, empty for a pod that is not joined early: its interface must
// not come before the sysctls that say what a new interface is like.
func (h containerHolder) procsFile(p *pending) string {
	if h.s.opts.Cgroups == nil || h.s.opts.EngineBridge || usesHostNetwork(p.config) || setsNetwork(p.config.GetLinux()) {
		return ""
	}
	return h.s.opts.Cgroups.ProcsFile(p.cgroupDriver, p.cgroupParent, p.record.SandboxID)
}

func setsNetwork(linux *runtimeapi.LinuxPodSandboxConfig) bool {
	for name := range linux.GetSysctls() {
		if strings.HasPrefix(name, "net") {
			return true
		}
	}
	return false
}

// look waits for a process with a network namespace of its own, and returns 0
// when the engine's start or ctx ends first.
func (e *earlyJoin) look(ctx context.Context, file string) int {
	start := time.Now()
	pause := time.NewTimer(minLookPause)
	defer pause.Stop()
	for {
		content, _ := os.ReadFile(file) // not there yet, or no more
		for line := range strings.Lines(string(content)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && netns.HasOwn(pid) {
				return pid
			}
		}
		pause.Reset(lookPause(time.Since(start)))
		select {
		case <-pause.C:
		case <-e.started:
			return 0
		case <-ctx.Done():
			return 0
		}
	}
}

// startReturned ends the looking: the engine's start is over, whatever came of it.
func (e *earlyJoin) startReturned() { close(e.started) }

// wait returns how far the pod has come, once that will not change any more.
func (e *earlyJoin) wait() joined {
	<-e.done
	e.cancel()
	return e.joined
}

// giveUp cuts the joining short and returns how far it came.
func (e *earlyJoin) giveUp() joined {
	e.cancel()
	return e.wait()
}

// joinPod completes what joinEarly has started, or joins the pod now.
func (h containerHolder) joinPod(ctx context.Context, p *pending) error {
	early := p.container.early
	p.container.early = nil
	j := early.wait()
	if j.handle == nil { // nothing was found in time, or it has ended meanwhile
		j = h.s.join(ctx, p.record.NetnsPath, cniPod(p.record, p.config), p.container.inspect.State.Pid)
		h.s.keep(p, j)
		return j.err
	}
	h.s.keep(p, j)
	if j.err != nil {
		return j.err
	}
	same, err := j.handle.SameAs(p.container.inspect.State.Pid)
	if err == nil && !same {
		err = fmt.Errorf("the sandbox is not in the network namespace that its first process was in: %w", errdefs.ErrInternal)
	}
	return err
}
