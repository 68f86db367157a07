package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/netns"
)

// network is a CNI network in memory. Like the real one it demands a live namespace for ADD.
type network struct {
	mu     sync.Mutex
	joined map[string]cni.Pod
	given  int
	dels   int
	// onAdd and onDel are called at the beginning; their errors fail the call.
	onAdd func(ctx context.Context, pod cni.Pod) error
	onDel func(ctx context.Context, pod cni.Pod) error
	// keepOnError makes a failed Add keep the address, as if the DEL that undoes it failed too.
	keepOnError bool
	// collected has the pods that each GC got.
	collected [][]string
	// deadDels counts the Dels that found no namespace.
	deadDels int
}

func (w *network) Add(ctx context.Context, pod cni.Pod) (*cni.Result, error) {
	w.mu.Lock()
	onAdd, keep := w.onAdd, w.keepOnError
	w.mu.Unlock()
	if !netns.Open(pod.NetnsPath).Alive() {
		return nil, fmt.Errorf("no namespace at %s: %w", pod.NetnsPath, errdefs.ErrFailedPrecondition)
	}
	if onAdd != nil {
		if err := onAdd(ctx, pod); err != nil {
			if !keep {
				return nil, err
			}
			w.join(pod)
			return nil, &cni.NotUndoneError{Add: err, Undo: errors.New("and DEL failed as well")}
		}
	}
	given := w.join(pod)
	return &cni.Result{Config: "net", IPs: []string{fmt.Sprintf("10.88.0.%d", given), fmt.Sprintf("fd00::%d", given)},
		Raw: []byte(`{"cniVersion":"1.1.0"}`)}, nil
}

func (w *network) join(pod cni.Pod) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined[pod.ID] = pod
	w.given++
	return w.given
}

func (w *network) Del(ctx context.Context, pod cni.Pod, _ string) error {
	w.mu.Lock()
	w.dels++
	onDel := w.onDel
	if !netns.Open(pod.NetnsPath).Alive() {
		w.deadDels++
	}
	w.mu.Unlock()
	if onDel != nil {
		if err := onDel(ctx, pod); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.joined, pod.ID)
	return nil
}

func (w *network) Joined(id string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, joined := w.joined[id]
	return joined, nil
}

func (w *network) Attached() (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths := map[string]string{}
	for id, pod := range w.joined {
		paths[id] = pod.NetnsPath
	}
	return paths, nil
}

func (w *network) GC(_ context.Context, pods []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.collected = append(w.collected, pods)
	return nil
}

func (w *network) setAdd(onAdd func(context.Context, cni.Pod) error) {
	w.set(func() { w.onAdd = onAdd })
}

func (w *network) setDel(onDel func(context.Context, cni.Pod) error) {
	w.set(func() { w.onDel = onDel })
}

func (w *network) failAdd(err error) { w.setAdd(failing(err)) }
func (w *network) failDel(err error) { w.setDel(failing(err)) }

func (w *network) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func failing(err error) func(context.Context, cni.Pod) error {
	if err == nil {
		return nil
	}
	return func(context.Context, cni.Pod) error { return err }
}
