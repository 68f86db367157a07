package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/step"
)

// withRuntime returns a copy of the host configuration with another runtime.
func withRuntime(host *container.HostConfig, runtime string) *container.HostConfig {
	changed := container.HostConfig{}
	if host != nil {
		changed = *host
	}
	changed.Runtime = runtime
	return &changed
}

// undoTime bounds the removal of a container without its note.
const undoTime = time.Minute

// saveNote writes the note of a new container. Without its note the container cannot start. So saveNote removes the
// container if the write fails. If criadapter crashes before the write, the container stays, but no client knows its
// id.
func (s *session) saveNote(ctx context.Context, id string, note ocinote.Note) error {
	defer step.At("note: write")()
	note.Engine, note.EngineRoot = s.engineID, s.features.Root
	err := s.mapVolumes(ctx, id, &note)
	if err == nil {
		err = s.features.OCIRuntime.Notes.Save(id, note)
	}
	if err == nil {
		return nil
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime) // the container must not stay
	defer cancel()
	_, undoErr := s.api.ContainerRemove(settle, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return errors.Join(fmt.Errorf("note for the OCI runtime: %w", err), undoErr)
}

// mapVolumes maps the owners in the volumes of the container's image into its user namespace, if it has one. Only the
// engine knows these volumes.
func (s *session) mapVolumes(ctx context.Context, id string, note *ocinote.Note) error {
	if note.UserNamespace() == "" {
		return nil
	}
	inspect, err := s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	note.MappedMounts = slices.Clone(note.MappedMounts)
	for _, m := range inspect.Container.Mounts {
		if m.Type == mount.TypeVolume {
			note.MappedMounts = append(note.MappedMounts, m.Destination)
		}
	}
	return nil
}

// LimitNote implements Containers.
func (c *Client) LimitNote(ctx context.Context, id string, limits NoteLimits) (old NoteLimits, err error) {
	s, err := c.session(ctx)
	if err != nil || !ocinote.IsID(id) {
		return NoteLimits{}, err
	}
	note, err := s.notes.Load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return NoteLimits{}, nil
	}
	if err != nil {
		return NoteLimits{}, fmt.Errorf("note for the OCI runtime: %w", err)
	}
	old = NoteLimits{HugepageLimits: note.HugepageLimits, Unified: note.Unified}
	note.HugepageLimits, note.Unified = limits.HugepageLimits, limits.Unified
	return old, s.notes.Save(id, note)
}

// Adjust implements Containers.
func (c *Client) Adjust(ctx context.Context, id string, adjustment ocinote.Adjustment) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	note, err := s.notes.Load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("an adjustment by NRI plugins needs the OCI runtime criadapter-oci in front of the engine's "+
			"default one (see docs/oci-runtime.md): %w", errdefs.ErrNotImplemented)
	}
	if err != nil {
		return fmt.Errorf("note for the OCI runtime: %w", err)
	}
	note.Plugins = &adjustment
	return s.notes.Save(id, note)
}

// Adjustment implements Containers.
func (c *Client) Adjustment(ctx context.Context, id string) (*ocinote.Adjustment, error) {
	s, err := c.session(ctx)
	if err != nil || !ocinote.IsID(id) {
		return nil, err
	}
	note, err := s.notes.Load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return note.Plugins, err
}

// removeNote removes the note of a container that is gone, if it has one, even when notes are switched off. A failed
// removal is repeated when a client connects to the engine.
func (s *session) removeNote(ctx context.Context, id string) {
	defer step.At("note: remove")()
	s.forgetNote(ctx, id)
}

func (s *session) forgetNote(ctx context.Context, id string) {
	if !ocinote.IsID(id) {
		return
	}
	if err := s.notes.Remove(id); err != nil {
		log.G(ctx).WithError(err).WithField("containerID", id).
			Warn("cannot remove the container's note for the OCI runtime")
	}
}
