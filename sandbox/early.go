package sandbox

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/criadapter/criadapter/internal/netns"
)

// A sandbox's network namespace exists before the engine's start is half done (after 45 of 100 ms on Docker 20.10). CNI
// ADD needs only the namespace. So joinEarly looks for the pod's first process in the container's cgroup. It pins and
// joins the namespace of this process while the engine goes on. If joinEarly finds no process, the pod is joined after
// the start.

// The kernel does not report new namespaces, so they are polled. The pause between two polls grows with the time
// waited, so polling delays a pod by a small part of its start. Pods that wait for a hanging engine cost next to
// nothing.
const (
	minLookPause  = time.Millisecond
	maxLookPause  = 100 * time.Millisecond
	lookPauseRate = 16 // time waited divided by the pause
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

// joinEarly begins to join a pod whose processes will be listed in file. If file is empty, the pod is not joined early.
// saved is closed when the pod's intent is on disk. Until then joinEarly pins no namespace and calls no CNI plugin. The
// caller ends the search for a process with startReturned, and must call wait or giveUp.
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

// look waits for a process with its own network namespace and returns the process id. It returns 0 if the engine's
// start or ctx ends first.
func (e *earlyJoin) look(ctx context.Context, file string) int {
	start := time.Now()
	pause := time.NewTimer(minLookPause)
	defer pause.Stop()
	for {
		content, _ := os.ReadFile(file) // the file may not exist yet, or no longer
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

// startReturned ends the search: the engine's start call has returned, with or without an error.
func (e *earlyJoin) startReturned() { close(e.started) }

// wait waits until the join has ended, and returns its result.
func (e *earlyJoin) wait() joined {
	<-e.done
	e.cancel()
	return e.joined
}

// giveUp cancels the join and returns its result, which may be incomplete.
func (e *earlyJoin) giveUp() joined {
	e.cancel()
	return e.wait()
}
