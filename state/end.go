package state

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
)

// EndOf returns the part of an ended container's inspect that its record keeps. It returns nil for a container that has
// not ended, or that the engine may start again.
func EndOf(c *Container) *checkpoint.End {
	m, s := c.Meta, c.Status
	if s.Running || s.Restarts || s.FinishedAt.IsZero() {
		return nil
	}
	return &checkpoint.End{
		Name: m.Name, ImageID: m.ImageID, CreatedAt: m.CreatedAt, LogPath: m.LogPath, LogDriver: m.LogDriver,
		EngineLogPath: m.EngineLogPath, User: m.User, StopSignal: m.StopSignal, CgroupParent: m.CgroupParent,
		OOMScore: m.OOMScore, UpperDir: m.UpperDir, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		ExitCode: s.ExitCode, OOMKilled: s.OOMKilled, Error: s.Error,
	}
}

// withEnd returns the status of a container whose start failed without a trace in the engine: the engine reports it as
// created, but its record has an end. Any other status stays as it is.
func (s ContainerStatus) withEnd(end *checkpoint.End) ContainerStatus {
	if end == nil || s.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return s
	}
	s.StartedAt, s.FinishedAt = end.StartedAt, end.FinishedAt
	s.ExitCode, s.OOMKilled, s.Error = end.ExitCode, end.OOMKilled, end.Error
	return s
}

// fromEnd makes the entry of an ended container from its record. It returns nil if the record has no end or no
// configuration.
func fromEnd(ctx context.Context, sandboxID, id string, kept checkpoint.Container) *Container {
	end := kept.End
	if end == nil {
		return nil
	}
	entry := &Container{
		ID:        id,
		SandboxID: sandboxID,
		Meta: ContainerMeta{
			Name: end.Name, ImageID: end.ImageID, ImageRef: end.ImageID, CreatedAt: end.CreatedAt,
			LogPath: end.LogPath, LogDriver: end.LogDriver, EngineLogPath: end.EngineLogPath, User: end.User,
			StopSignal: end.StopSignal, CgroupParent: end.CgroupParent, OOMScore: end.OOMScore, UpperDir: end.UpperDir,
		},
		Status: ContainerStatus{}.withEnd(end),
	}
	addRecord(ctx, entry, kept)
	if entry.Meta.Config == nil {
		return nil
	}
	entry.Status.Resources = &runtimeapi.ContainerResources{Linux: resourcesInForce(entry.Meta.Config, nil)}
	return entry
}

// mergeEnd publishes a listed container from its record alone. It returns false if the container needs an inspect, for
// example because the list does not show the record's end.
func (c *Cache) mergeEnd(ctx context.Context, listed container.Summary, asked question) bool {
	if listed.State != container.StateExited || len(listed.Names) == 0 {
		return false
	}
	_, sandboxID, ok := translate.PodOfContainer(listed.Labels, listed.Names[0])
	if !ok {
		return false
	}
	kept, err := c.opts.Records.LoadContainer(ctx, sandboxID, listed.ID)
	if err != nil || kept.End == nil || !showsEnd(listed.Status, kept.End, asked.at, time.Now()) {
		return false
	}
	if old := c.Snapshot().container(listed.ID); old != nil && !old.Status.FinishedAt.Equal(kept.End.FinishedAt) {
		return false // the end of an earlier run may look the same in the list
	}
	entry := fromEnd(ctx, sandboxID, listed.ID, kept)
	if entry == nil || entry.Meta.Config.GetImage() == nil || entry.Meta.Config.GetLinux().GetResources() == nil {
		return false // only an inspect has the engine's image and limits
	}
	if entry.Status.ExitCode == killedExitCode && !entry.Status.OOMKilled {
		return false // the engine may have reported OOMKilled after the end
	}
	merged, err := c.mergeContainer(ctx, entry, asked)
	return merged && err == nil
}

// showsEnd reports whether a status of the engine's list, such as "Exited (1) 5 minutes ago", may describe this end.
// The list was made between asked and answered. A later run with the same exit code also passes if the engine uses the
// same words for both ages.
func showsEnd(status string, end *checkpoint.End, asked, answered time.Time) bool {
	for at := asked.Add(-time.Second); !at.After(answered.Add(time.Second)); at = at.Add(time.Second) {
		age := units.HumanDuration(at.Sub(end.FinishedAt))
		if status == fmt.Sprintf("Exited (%d) %s ago", end.ExitCode, age) {
			return true
		}
	}
	return false
}

// showKeptEnds publishes a record's ended containers, unless the engine or the cache has them.
func (c *Cache) showKeptEnds(ctx context.Context, record checkpoint.Record, listed map[string]struct{}) {
	for id, kept := range record.Containers {
		if _, ok := listed[id]; ok || c.Snapshot().container(id) != nil {
			continue
		}
		if entry := fromEnd(ctx, record.SandboxID, id, kept); entry != nil {
			c.PutContainer(*entry)
		}
	}
}
