package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/panics"
	"github.com/criadapter/criadapter/state"
)

// GetContainerEvents sends all changes of pods and containers from now on. Each event has the pod's status and the
// statuses of its containers, so that the kubelet needs no list (KEP-3386). An event of the pod itself has the
// sandbox's id as container id. The described sandbox is the pod's newest one, see describingNewest. The header is sent
// when the subscription is complete.
//
// The stream ends with the client, with ResourceExhausted if the client is too slow, and with Unavailable when the
// server shuts down. After either error the kubelet subscribes and lists again.
func (s *Server) GetContainerEvents(
	_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse],
) error {
	if _, err := s.snapshot(stream.Context()); err != nil {
		return err
	}
	events := s.opts.Cache.Subscribe()
	defer events.Close()
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	// A send blocks while the client does not read. The sender may outlive this call until gRPC ends the stream.
	sent := make(chan error, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil { // the interceptor recovers only its own goroutine
				sent <- panics.Report(log.G(ctx), "request", "GetContainerEvents", cause)
			}
		}()
		sent <- s.sendEvents(ctx, events, stream)
	}()
	select {
	case err := <-sent:
		return err
	case <-events.CutOff():
		_, err := events.Next(ctx)
		return err
	case <-s.ending:
		return fmt.Errorf("criadapter is shutting down: %w", errdefs.ErrUnavailable)
	}
}

// EndStreams ends the streams of GetContainerEvents when the server shuts down. It may be called once.
func (s *Server) EndStreams() { close(s.ending) }

func (s *Server) sendEvents(
	ctx context.Context, events *state.Subscription,
	stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse],
) error {
	for {
		change, err := events.Next(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(containerEvent(describingNewest(change, s.opts.Cache.Snapshot()))); err != nil {
			return err
		}
	}
}

// describingNewest lets an event of a pod's old sandbox describe the pod's newest sandbox. A kubelet replaces its
// status of the whole pod with the status in the event. From the status of an old sandbox it would conclude that the
// pod must run a second time. The removal of the newest sandbox describes an older one, if there is one. A kubelet
// forgets the pod after an event that describes the removed sandbox.
func describingNewest(change state.Change, now *state.Snapshot) state.Change {
	if change.Pod == nil {
		return change
	}
	uid := change.Pod.Meta.Config.GetLabels()[state.LabelPodUID]
	pods := now.PodsLabelled(uid)
	if uid == "" || len(pods) == 0 {
		return change
	}
	removed := change.Type == state.Deleted && change.Pod.ID == change.ID
	if newest := slices.MaxFunc(pods, byAttempt); removed || byAttempt(newest, change.Pod) > 0 {
		change.Pod, change.Containers = newest, now.ContainersOf(newest.ID)
	}
	return change
}

// byAttempt orders the sandboxes of a pod, the newest last. Time alone is not enough, because the clock may have been
// set back between two attempts.
func byAttempt(a, b *state.Pod) int {
	attempt := func(p *state.Pod) uint32 { return p.Meta.Config.GetMetadata().GetAttempt() }
	return cmp.Or(cmp.Compare(attempt(a), attempt(b)), a.Meta.CreatedAt.Compare(b.Meta.CreatedAt))
}

var eventTypes = map[state.ChangeType]runtimeapi.ContainerEventType{
	state.Created: runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT,
	state.Started: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
	state.Stopped: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
	state.Deleted: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
}

func containerEvent(change state.Change) *runtimeapi.ContainerEventResponse {
	event := &runtimeapi.ContainerEventResponse{
		ContainerId:        change.ID,
		ContainerEventType: eventTypes[change.Type],
		CreatedAt:          change.Time.UnixNano(),
	}
	if change.Pod != nil {
		event.PodSandboxStatus = sandboxStatus(change.Pod)
	}
	for _, c := range change.Containers {
		event.ContainersStatuses = append(event.ContainersStatuses, containerStatus(c))
	}
	return event
}
