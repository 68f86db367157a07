package pleg

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
)

// streamBackoff is the pause before a broken stream is opened again.
var streamBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
}

const (
	// unimplementedRetry is the pause after a runtime said that it has no such stream: a newer one may take its place.
	unimplementedRetry = time.Minute
	// goodStream is how long a stream must have lasted to count as one that worked.
	goodStream = 10 * time.Second
)

// listen keeps a stream open until ctx ends, and says on streaming whether there is one.
func (g *Generator) listen(ctx context.Context, streaming chan<- bool) {
	say := func(on bool) {
		select {
		case streaming <- on:
		case <-ctx.Done():
		}
	}
	for backoff := streamBackoff; ; {
		began := time.Now()
		opened, err := g.openStream(ctx, say)
		if ctx.Err() != nil {
			return
		}
		if opened {
			say(false)
		}
		pause := backoff.Step()
		switch {
		case status.Code(err) == codes.Unimplemented:
			log.G(ctx).Debug("runtime streams no events; its pods are listed instead")
			pause = unimplementedRetry
		case time.Since(began) > goodStream:
			backoff = streamBackoff
			pause = backoff.Step()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// openStream opens one stream and takes its events until it ends. It counts as open with its first event: that a call
// succeeded means nothing before the server has answered something.
func (g *Generator) openStream(ctx context.Context, say func(bool)) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := make(chan *runtimeapi.ContainerEventResponse, 100)
	go func() {
		defer close(responses)
		err = g.opts.Runtime.GetContainerEvents(ctx, responses, nil)
	}()
	for response := range responses { // until the stream has ended
		if !opened {
			opened = true
			say(true)
		}
		g.hint(ctx, response)
	}
	return opened, err
}

// hint passes on what happened to which pod.
func (g *Generator) hint(ctx context.Context, response *runtimeapi.ContainerEventResponse) {
	sandbox := response.GetPodSandboxStatus()
	uid := types.UID(sandbox.GetMetadata().GetUid())
	if uid == "" || !g.opts.Runtime.Owns(sandbox.GetLabels()) {
		return // nothing says whose it is (the next list will), or it is another kubelet's
	}
	select {
	case g.hints <- hint{uid: uid, event: response}:
	case <-ctx.Done():
	}
}

// hint is an event of one pod's sandbox or container.
type hint struct {
	uid   types.UID
	event *runtimeapi.ContainerEventResponse
}

// applyTo is the pod after the event, if pod is how it was listed before; nil is a pod without anything. A sandbox
// counts from its start: until then a list would show it as one that has ended.
func (h hint) applyTo(pod *cri.Pod) *cri.Pod {
	sandbox, id, kind := h.event.GetPodSandboxStatus(), h.event.GetContainerId(), h.event.GetContainerEventType()
	after := &cri.Pod{
		UID: h.uid, Name: sandbox.GetMetadata().GetName(), Namespace: sandbox.GetMetadata().GetNamespace(),
		Sandboxes: map[string]runtimeapi.PodSandboxState{}, Containers: map[string]runtimeapi.ContainerState{},
	}
	if pod != nil {
		maps.Copy(after.Sandboxes, pod.Sandboxes)
		maps.Copy(after.Containers, pod.Containers)
	}
	_, known := after.Containers[id]
	switch isSandbox := id == sandbox.GetId(); {
	case kind == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		delete(after.Sandboxes, id)
		delete(after.Containers, id)
	case kind == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT && isSandbox:
		after.Sandboxes[id] = runtimeapi.PodSandboxState_SANDBOX_READY
	case kind == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT && isSandbox:
		after.Sandboxes[id] = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	case kind == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		after.Containers[id] = runtimeapi.ContainerState_CONTAINER_RUNNING
	case kind == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		after.Containers[id] = runtimeapi.ContainerState_CONTAINER_EXITED
	case kind == runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT && !isSandbox && !known:
		after.Containers[id] = runtimeapi.ContainerState_CONTAINER_CREATED
	}
	return after
}
