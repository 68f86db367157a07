package container

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// marshalConfig is a container's configuration as the checkpoint keeps it.
func marshalConfig(config *runtimeapi.ContainerConfig) (json.RawMessage, error) {
	raw, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("config cannot be stored (%w): %w", err, errdefs.ErrInvalidArgument)
	}
	return raw, nil
}

// saveRecord changes a container's part of its pod's checkpoint and makes it if need be. A pod without a checkpoint
// (another shim's, or lost) has none for its containers either: their labels suffice.
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

// savePosition keeps how far a container's log has been written, and by the way who it began as. It never brings back
// the record of a container that was removed.
func (s *Service) savePosition(ctx context.Context, sandboxID, id string, at checkpoint.LogPosition) error {
	user := s.user(id)
	return s.changeRecord(ctx, sandboxID, id, func(kept *checkpoint.Container) {
		kept.LogPosition = at
		if user != nil {
			kept.User = user
		}
	})
}

// saveUser saves the user that a container began as, which is unknown once it has ended. A saved user is not saved
// again.
func (s *Service) saveUser(ctx context.Context, sandboxID, id string) error {
	user := s.user(id)
	if user == nil {
		return nil
	}
	return s.changeRecord(ctx, sandboxID, id, func(kept *checkpoint.Container) { kept.User = user })
}

// user returns the user that the container began as, nil when it is unknown.
func (s *Service) user(id string) *checkpoint.User {
	c, err := s.opts.Cache.Snapshot().Container(id)
	if err != nil || c.Status.Identity == nil {
		return nil
	}
	return &checkpoint.User{UID: c.Status.Identity.UID, GID: c.Status.Identity.GID, Groups: c.Status.Identity.Groups}
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

// dropRecord removes a container's part of the checkpoint.
func (s *Service) dropRecord(ctx context.Context, sandboxID, id string) error {
	return docker.IgnoreNotFound(s.opts.Store.Update(ctx, sandboxID, func(r *checkpoint.Record) error {
		delete(r.Containers, id)
		return nil
	}))
}

// loadRecord returns a container's part of the checkpoint, nil without one.
func (s *Service) loadRecord(ctx context.Context, sandboxID, id string) (*checkpoint.Container, error) {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if err != nil {
		return nil, docker.IgnoreNotFound(err)
	}
	kept, ok := record.Containers[id]
	if !ok {
		return nil, nil
	}
	return &kept, nil
}
