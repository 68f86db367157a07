package pleg

import (
	"context"
	"maps"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
)

const (
	// unimplementedRetry is the pause after Unimplemented: a newer runtime may start.
	unimplementedRetry = time.Minute
	// goodStream is the shortest duration of a stream that resets the back-off.
	goodStream = 10 * time.Second
)

// listen keeps a stream open until ctx ends, and sends on streaming whether it is open.
func (g *Generator) listen(ctx context.Context, streaming chan<- bool) {
	send := func(on bool) {
		select {
		case streaming <- on:
		case <-ctx.Done():
		}
	}
	for backoff := cri.RetryBackoff(); ; {
		began := time.Now()
		opened, err := g.openStream(ctx, send)
		if ctx.Err() != nil {
			return
		}
		if opened {
			send(false)
		}
		pause := backoff.Step()
		switch {
		case status.Code(err) == codes.Unimplemented:
			log.G(ctx).Debug("runtime does not stream events; pods are listed instead")
			pause = unimplementedRetry
		case time.Since(began) > goodStream:
			backoff = cri.RetryBackoff()
			pause = backoff.Step()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// openStream opens one stream and passes its events to Run until the stream ends. The stream counts as open from its
// first event on, because a successful call may not have reached the server yet.
func (g *Generator) openStream(ctx context.Context, send func(bool)) (opened bool, err error) {
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
			send(true)
		}
		g.hint(ctx, response)
	}
	return opened, err
}

// hint passes an event on to Run.
func (g *Generator) hint(ctx context.Context, response *runtimeapi.ContainerEventResponse) {
	sandbox := response.GetPodSandboxStatus()
	uid := types.UID(sandbox.GetMetadata().GetUid())
	if uid == "" || !g.opts.Runtime.Owns(sandbox.GetLabels()) {
		return // the pod is unknown until the next list, or belongs to another kubelet
	}
	select {
	case g.hints <- hint{uid: uid, event: response}:
	case <-ctx.Done():
	}
}

// hint is an event of a pod's sandbox or container.
type hint struct {
	uid   types.UID
	event *runtimeapi.ContainerEventResponse
}

// applyTo is the listed pod after the event. A nil pod has no sandbox and no container. A sandbox is added at its start
// event, because lists show it as dead until then.
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
	_, listed := after.Sandboxes[id] // the event of an old sandbox has the status of the pod's newest sandbox
	switch isSandbox := listed || id == sandbox.GetId(); {
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
