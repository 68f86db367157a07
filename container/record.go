package container

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// marshalConfig encodes a container's configuration for the checkpoint.
func marshalConfig(config *runtimeapi.ContainerConfig) (json.RawMessage, error) {
	raw, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("config cannot be stored (%w): %w", err, errdefs.ErrInvalidArgument)
	}
	return raw, nil
}

// saveRecord changes a container's part of its pod's checkpoint, or adds it. It does nothing for a pod without a
// checkpoint (another shim's pod, or a lost checkpoint): the labels of its containers suffice.
func (s *Service) saveRecord(ctx context.Context, sandboxID, id string, change func(*checkpoint.Container)) error {
	return docker.IgnoreNotFound(s.opts.Store.Update(ctx, sandboxID, func(r *checkpoint.Record) error {
		if r.Containers == nil {
			r.Containers = map[string]checkpoint.Container{}
		}
		kept := r.Containers[id]
		change(&kept)
		r.Containers[id] = kept
		return nil
	}))
}

// savePosition saves the position of a container's log and the facts of its run. It never recreates the record of a
// removed container.
func (s *Service) savePosition(ctx context.Context, sandboxID, id string, at checkpoint.LogPosition) error {
	addFacts := s.facts(id)
	return s.changeRecord(ctx, sandboxID, id, func(kept *checkpoint.Container) {
		kept.LogPosition = at
		if addFacts != nil {
			addFacts(kept)
		}
	})
}

// tidyRecord drops a pod's records of containers that are gone, and saves the ends of containers that ended while
// criadapter was away. It drops the saved ends of containers that run again.
func (s *Service) tidyRecord(ctx context.Context, sandboxID string) error {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	before := s.opts.Cache.Snapshot()
	gone := map[string]bool{}
	for id := range record.Containers {
		if _, err := before.Container(id); errdefs.IsNotFound(err) {
			// A container that is being created is not in the cache yet, so the engine has the last word.
			_, err := s.opts.Engine.InspectContainer(ctx, id)
			gone[id] = errdefs.IsNotFound(err)
		}
	}
	return docker.IgnoreNotFound(s.opts.Store.Update(ctx, sandboxID, func(r *checkpoint.Record) error {
		snapshot := s.opts.Cache.Snapshot() // containers may have ended since
		for id, kept := range r.Containers {
			c, err := snapshot.Container(id)
			switch {
			case gone[id] && err != nil:
				delete(r.Containers, id)
			case err == nil && !endIsNewer(kept, c):
				kept.End = state.EndOf(c)
				r.Containers[id] = kept
			}
		}
		return nil
	}))
}

// saveEnd saves the end of a container that has no exit hook.
func (s *Service) saveEnd(ctx context.Context, id string) error {
	c, err := s.find(id)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	return s.changeRecord(ctx, c.SandboxID, c.ID, func(kept *checkpoint.Container) { kept.End = state.EndOf(c) })
}

// endIsNewer reports whether the record has an end that the cache does not show yet: the end of this run, or a failed
// start.
func endIsNewer(kept checkpoint.Container, c *state.Container) bool {
	return kept.End != nil && c.Status.FinishedAt.IsZero() &&
		(c.Status.StartedAt.IsZero() || kept.End.StartedAt.Equal(c.Status.StartedAt))
}

// facts returns a change that adds to a container's record what the engine may not report later: the user that the
// container started as, an out-of-memory kill, and the end. It returns nil if none of them is known.
func (s *Service) facts(id string) func(*checkpoint.Container) {
	c, err := s.opts.Cache.Snapshot().Container(id)
	end, ended := s.ends.Load(id)
	if err != nil || c.Status.Identity == nil && !c.Status.OOMReported() && !ended {
		return nil
	}
	return func(kept *checkpoint.Container) {
		if ended {
			kept.End = end.(*checkpoint.End)
		}
		if user := c.Status.Identity; user != nil {
			kept.User = &checkpoint.User{UID: user.UID, GID: user.GID, Groups: user.Groups}
		}
		if c.Status.OOMReported() {
			kept.OOMRun = c.Status.StartedAt
		}
	}
}

// changeRecord changes a container's part of the checkpoint, if it exists.
func (s *Service) changeRecord(ctx context.Context, sandboxID, id string, change func(*checkpoint.Container)) error {
	return docker.IgnoreNotFound(s.opts.Store.Update(ctx, sandboxID, func(r *checkpoint.Record) error {
		if kept, ok := r.Containers[id]; ok {
			change(&kept)
			r.Containers[id] = kept
		}
		return nil
	}))
}

// mark adds a value to a list of the pod's record, or removes it there. A pod without a record gets no mark.
func (s *Service) mark(
	ctx context.Context, sandboxID string, list func(*checkpoint.Record) *[]string, value string, present bool,
) error {
	return docker.IgnoreNotFound(s.opts.Store.Update(ctx, sandboxID, func(r *checkpoint.Record) error {
		marked := list(r)
		*marked = slices.DeleteFunc(*marked, func(other string) bool { return other == value })
		if present {
			*marked = append(*marked, value)
		}
		return nil
	}))
}

// LeavePod marks a pod as being removed until done is called. Meanwhile Remove keeps the records of removed containers,
// because the pod's checkpoint goes as a whole. This saves one write of the checkpoint per container. If the pod is not
// removed in the end, Watch drops these records.
func (s *Service) LeavePod(pod *state.Pod) (done func(removed bool)) {
	s.leaving.Store(pod.ID, nil)
	return func(removed bool) {
		s.leaving.Delete(pod.ID)
		if !removed {
			s.leaveToWatch(func(ctx context.Context) { s.tidy(ctx, pod) })
		}
	}
}

// dropRecord removes a container's part of the checkpoint, unless the pod is being removed.
func (s *Service) dropRecord(ctx context.Context, sandboxID, id string) error {
	if _, leaving := s.leaving.Load(sandboxID); leaving {
		return nil
	}
	return docker.IgnoreNotFound(s.opts.Store.Update(ctx, sandboxID, func(r *checkpoint.Record) error {
		delete(r.Containers, id)
		return nil
	}))
}

// loadRecord returns a container's part of the checkpoint, nil without one.
func (s *Service) loadRecord(ctx context.Context, sandboxID, id string) (*checkpoint.Container, error) {
	kept, err := s.opts.Store.LoadContainer(ctx, sandboxID, id)
	if err != nil {
		return nil, docker.IgnoreNotFound(err)
	}
	return &kept, nil
}
