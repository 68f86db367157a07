package play

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podlogs"
)

// containerKey names a container of a pod.
type containerKey struct {
	pod       types.UID
	container string
}

// attempt is one start of a container.
type attempt struct {
	containerKey
	restarts int32
}

// follower writes the logs of all containers as they grow.
type follower struct {
	terminal *terminal
	logs     string
	pods     func() []*v1.Pod
	// next has, for each container, the first attempt whose log is not read yet. Attempts are numbered by restarts.
	next    map[containerKey]int32
	running sync.WaitGroup
}

// follow begins to read the logs of containers that have started since the last call. A container may have started
// more than once since then.
func (f *follower) follow(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		for _, c := range model.Statuses(pod) {
			if c.ContainerID == "" {
				continue
			}
			key := containerKey{pod.UID, c.Name}
			first := f.next[key]
			if first > c.RestartCount {
				continue
			}
			f.next[key] = c.RestartCount + 1
			f.running.Go(func() {
				for restarts := first; restarts < c.RestartCount; restarts++ {
					f.read(ctx, pod, attempt{key, restarts}, 0)
				}
				f.read(ctx, pod, attempt{key, c.RestartCount}, logWait)
			})
		}
	}
}

// logWait is how long the log of a started container may be missing: the runtime creates the log a moment after the
// start.
const logWait = 5 * time.Second

// read writes the log of an attempt. It waits at most wait until the log exists.
func (f *follower) read(ctx context.Context, pod *v1.Pod, a attempt, wait time.Duration) {
	lines := f.terminal.lines(podName(pod) + "/" + a.container)
	defer lines.end()
	opts := podlogs.Options{
		Path: filepath.Join(model.PodLogDirectory(f.logs, pod),
			model.ContainerLogPath(a.container, uint32(a.restarts))),
		Tail: -1, Limit: -1, Stdout: lines, Stderr: lines, Running: func(context.Context) bool { return f.writes(a) },
	}
	for deadline := time.Now().Add(wait); ; {
		err := podlogs.Read(ctx, opts)
		if errors.Is(err, fs.ErrNotExist) && time.Now().Before(deadline) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.terminal.line(lines.name, fmt.Sprintf("its log cannot be read: %v", err))
		}
		return
	}
}

// writes says whether an attempt may still write to its log.
func (f *follower) writes(a attempt) bool {
	for _, pod := range f.pods() {
		if pod.UID == a.pod {
			c := model.FindStatus(&pod.Status, a.container)
			return c != nil && c.RestartCount == a.restarts && c.State.Running != nil
		}
	}
	return false
}
