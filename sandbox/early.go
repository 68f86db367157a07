package sandbox

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/criadapter/criadapter/internal/netns"
)

// A sandbox's network namespace exists when the engine's start is not half done (45 of 100 ms on Docker 20.10), and CNI
// ADD needs only that. So the pod is joined as soon as its first process exists: it is found in the container's cgroup,
// and its namespace is pinned and joined while the engine goes on. Where nothing is found, the pod is joined after the
// start.

// The kernel does not report new namespaces, so they are polled. The pause grows with the time waited: it delays a pod
// by a small part of its start. Pods that wait for a hanging engine cost next to nothing.
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

// joinEarly begins to join a pod whose processes will be listed in file. An empty file is none: the pod is not joined
// early. saved is closed when the pod's intent is on disk, before which nothing may be held for it. The caller ends the
// looking with startReturned, and must call wait or giveUp.
func joinEarly(ctx context.Context, file string, saved <-chan struct{},
	join func(context.Context, int) joined) *earlyJoin {
	e := &earlyJoin{cancel: func() {}, started: make(chan struct{}), done: make(chan struct{})}
	if file == "" {
		close(e.done)
		return e
	}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		select {
		case <-saved:
		case <-e.started:
			return
		}
		if pid := e.look(ctx, file); pid != 0 {
			e.joined = join(ctx, pid)
		}
	}()
	return e
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
