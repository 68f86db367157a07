package state

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// fromInspect makes a *Pod or *Container from an inspect and the checkpoint. It returns nil if the container is
// neither, belongs to another criadapter, or has labels that contradict each other.
func (c *Cache) fromInspect(ctx context.Context, inspect *container.InspectResponse) any {
	if inspect.Config == nil || inspect.State == nil {
		return nil
	}
	name := c.nameOf(inspect)
	if c.owner(ctx, inspect.ID, name, inspect.Config.Labels) != "" {
		return nil
	}
	switch translate.Identify(name, inspect.Config.Labels) {
	case translate.KindSandbox:
		return podFromInspect(ctx, inspect, name, c.record(ctx, inspect.ID))
	case translate.KindContainer:
		if entry := c.containerFromInspect(ctx, inspect, name); entry != nil { // a nil *Container is not a nil any
			return entry
		}
	}
	return nil
}

// nameOf returns the name of a container. A pod or container in the cache keeps its name, even if a user renames it in
// the engine.
func (c *Cache) nameOf(inspect *container.InspectResponse) string {
	now := c.Snapshot()
	if pod := now.pod(inspect.ID); pod != nil {
		return pod.Meta.Name
	}
	if known := now.container(inspect.ID); known != nil {
		return known.Meta.Name
	}
	return strings.TrimPrefix(inspect.Name, "/")
}

// record returns the checkpoint of a pod, nil if there is none.
func (c *Cache) record(ctx context.Context, sandboxID string) *checkpoint.Record {
	record, err := c.opts.Records.Load(ctx, sandboxID)
	if err != nil {
		warnUnreadable(ctx, sandboxID, err)
		return nil
	}
	return &record
}

// warnUnreadable logs the error of a read of a checkpoint, unless there is no checkpoint.
func warnUnreadable(ctx context.Context, sandboxID string, err error) {
	if errdefs.IsNotFound(err) {
		return
	}
	log.G(ctx).WithError(err).WithField("podSandboxID", sandboxID).
		Warn("cannot read checkpoint of pod sandbox, using labels")
}

// NewPod returns the entry of a pod that has just been set up.
func NewPod(ctx context.Context, inspect *container.InspectResponse, record checkpoint.Record) Pod {
	return *podFromInspect(ctx, inspect, strings.TrimPrefix(inspect.Name, "/"), &record)
}

func podFromInspect(
	ctx context.Context, inspect *container.InspectResponse, name string, record *checkpoint.Record,
) *Pod {
	pod := &Pod{
		ID: inspect.ID,
		Meta: PodMeta{
			Name:      name,
			CreatedAt: docker.ParseTime(inspect.Created),
			ImageID:   inspect.Image,
		},
		Status: PodStatus{
			// A sandbox that waits for its restart has lost its namespaces, but the engine calls it running.
			Running:    inspect.State.Running && !inspect.State.Restarting,
			PID:        inspect.State.Pid,
			StartedAt:  docker.ParseTime(inspect.State.StartedAt),
			finishedAt: docker.ParseTime(inspect.State.FinishedAt),
		},
	}
	if inspect.HostConfig != nil {
		pod.Meta.HostNetwork = inspect.HostConfig.NetworkMode.IsHost()
	}
	pod.Meta.Config = podConfigFromLabels(ctx, inspect, name)
	switch {
	case record != nil:
		fromRecord(ctx, pod, *record)
		if ips := docker.Addresses(inspect); record.NetnsPath == "" && len(ips) > 0 {
			pod.Status.IPs = ips // the engine's bridge gives other addresses at each start
		}
	case !translate.MadeByUs(inspect.Config.Labels):
		// The inspect has the addresses of another shim's pod if Docker set up the pod's network.
		pod.Status.NetworkReady = true
		pod.Status.IPs = docker.Addresses(inspect)
		if inspect.HostConfig != nil {
			pod.Meta.RuntimeHandler = inspect.HostConfig.Runtime // its containers use the same runtime
		}
	}
	// A pod of ours without a record stays NOTREADY: its set-up was interrupted before it had an address.
	if pod.Status.NetnsPath == "" && !pod.Meta.HostNetwork && pod.Status.RanBefore() {
		pod.Status.NetworkReady = false // see restarted; package sandbox compares pinned namespaces
	}
	return pod
}

// RanBefore reports whether a running sandbox had an earlier run: the engine keeps the time of that run's end.
func (s PodStatus) RanBefore() bool { return s.Running && !s.finishedAt.IsZero() }

// fromRecord fills in the pod from its checkpoint.
func fromRecord(ctx context.Context, pod *Pod, record checkpoint.Record) {
	config := &runtimeapi.PodSandboxConfig{}
	switch {
	case unmarshal(ctx, record.Config, config, log.Fields{"podSandboxID": record.SandboxID}):
		pod.Meta.Config = config
	case pod.Meta.Config == nil:
		pod.Meta.Config = &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{
			Name: record.Name, Namespace: record.Namespace, Uid: record.UID, Attempt: record.Attempt,
		}}
	}
	pod.Status.Overhead = pod.Meta.Config.GetLinux().GetOverhead()
	pod.Status.Resources = pod.Meta.Config.GetLinux().GetResources()
	pod.Meta.RuntimeHandler, pod.Meta.Runtime = record.RuntimeHandler, record.Runtime
	pod.Status.NetnsPath = record.NetnsPath
	pod.Status.Namespaces = record.Namespaces
	pod.Status.UserNamespace = record.UserNamespace
	pod.Status.Stopping = record.Phase == checkpoint.PhaseStopped
	pod.Status.NetworkReady = record.Phase == checkpoint.PhaseReady
	if record.Network != nil {
		pod.Status.IPs = record.Network.IPs
	}
}

func podConfigFromLabels(
	ctx context.Context, inspect *container.InspectResponse, name string,
) *runtimeapi.PodSandboxConfig {
	config, err := translate.PodConfig(inspect.Config.Labels, name)
	if err != nil {
		log.G(ctx).WithError(err).WithField("podSandboxID", inspect.ID).Warn("cannot read labels of pod sandbox")
		return &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{}}
	}
	return config
}

// containerFromInspect returns nil for labels that cannot be read.
func (c *Cache) containerFromInspect(ctx context.Context, inspect *container.InspectResponse, name string) *Container {
	config, sandboxID, err := translate.ContainerConfig(inspect.Config.Labels, name)
	if err != nil {
		log.G(ctx).WithError(err).WithField("containerID", inspect.ID).Warn("cannot read labels of container")
		return nil
	}
	entry := &Container{
		ID:        inspect.ID,
		SandboxID: sandboxID,
		Meta: ContainerMeta{
			Name:          name,
			Config:        config,
			ImageID:       inspect.Image,
			ImageRef:      inspect.Image,
			CreatedAt:     docker.ParseTime(inspect.Created),
			EngineLogPath: inspect.LogPath,
			LogPath:       translate.LogPath(inspect.Config.Labels),
			User:          inspect.Config.User,
			StopSignal:    cmp.Or(inspect.Config.StopSignal, "SIGTERM"),
		},
		Status: containerStatus(inspect),
	}
	_, entry.Meta.hidesExitCode = inspect.Config.Labels[labelExitCode]
	if inspect.GraphDriver != nil {
		entry.Meta.UpperDir = inspect.GraphDriver.Data["UpperDir"] // only drivers of the overlay family report it
	}
	if inspect.HostConfig != nil {
		entry.Meta.LogDriver = inspect.HostConfig.LogConfig.Type
		entry.Meta.OOMScore, entry.Meta.CgroupParent = inspect.HostConfig.OomScoreAdj, inspect.HostConfig.CgroupParent
		entry.Status.Restarts = !inspect.HostConfig.RestartPolicy.IsNone()
	}
	if kept, err := c.opts.Records.LoadContainer(ctx, sandboxID, inspect.ID); err != nil {
		warnUnreadable(ctx, sandboxID, err)
	} else {
		entry.Status = entry.Status.withEnd(kept.End)
		addRecord(ctx, entry, kept)
	}
	if entry.Meta.Config.Image == nil {
		entry.Meta.Config.Image = &runtimeapi.ImageSpec{Image: inspect.Config.Image}
	}
	entry.Status.Resources = &runtimeapi.ContainerResources{
		Linux: resourcesInForce(entry.Meta.Config, inspect.HostConfig)}
	return entry
}

// addRecord adds to a container the facts that only its record has.
func addRecord(ctx context.Context, entry *Container, kept checkpoint.Container) {
	full := &runtimeapi.ContainerConfig{}
	if unmarshal(ctx, kept.Config, full, log.Fields{"containerID": entry.ID}) {
		entry.Meta.Config = full
	}
	entry.Meta.ImageRef = cmp.Or(kept.ImageRef, entry.Meta.ImageRef)
	if kept.User != nil && entry.Status.Identity == nil && !entry.Status.StartedAt.IsZero() {
		entry.Status.Identity = &docker.Identity{UID: kept.User.UID, GID: kept.User.GID, Groups: kept.User.Groups}
	}
	if !kept.OOMRun.IsZero() && kept.OOMRun.Equal(entry.Status.StartedAt) {
		entry.Status = entry.Status.WithOOM()
	}
}

func containerStatus(inspect *container.InspectResponse) ContainerStatus {
	s := ContainerStatus{
		Running:    inspect.State.Running || inspect.State.Paused || inspect.State.Restarting,
		Paused:     inspect.State.Paused,
		PID:        inspect.State.Pid,
		StartedAt:  docker.ParseTime(inspect.State.StartedAt),
		FinishedAt: docker.ParseTime(inspect.State.FinishedAt),
		ExitCode:   inspect.State.ExitCode,
		OOMKilled:  inspect.State.OOMKilled,
		Error:      inspect.State.Error,
	}
	if s.Running {
		s.FinishedAt = time.Time{} // these fields describe the end of an earlier run
		s.ExitCode, s.OOMKilled, s.Error = 0, false, ""
		if identity, err := docker.InitialIdentity(inspect.ID, s.PID); err == nil {
			s.Identity = &identity
		}
		return s
	}
	failed := inspect.State.Status == container.StateCreated && (s.ExitCode != 0 || s.Error != "") &&
		s.FinishedAt.IsZero()
	switch {
	case failed && docker.StartCancelled(s.Error):
		s.ExitCode, s.Error = 0, "" // the kubelet replaces a created container, whatever its restart policy is
	case failed:
		// A failed start leaves a created container with an exit code and without times. The kubelet must see it as
		// ended.
		s.StartedAt = docker.ParseTime(inspect.Created)
		s.FinishedAt = s.StartedAt
	}
	// A dead container is half removed. If it was never started (the engine may have ended during its creation), it
	// stays CREATED. The kubelet would report a container in state UNKNOWN as started and lost.
	if inspect.State.Dead && s.FinishedAt.IsZero() && !s.StartedAt.IsZero() {
		s.Unknown = true
	}
	if inspect.State.Dead && !s.FinishedAt.IsZero() {
		s.Error = "" // the error is from the failed removal, not from the run
	}
	return s
}

// resourcesInForce returns the resources that the client asked for, or the engine's resources if they are unknown.
func resourcesInForce(
	config *runtimeapi.ContainerConfig, host *container.HostConfig,
) *runtimeapi.LinuxContainerResources {
	if wanted := config.GetLinux().GetResources(); wanted != nil {
		return proto.CloneOf(wanted)
	}
	if host == nil {
		return &runtimeapi.LinuxContainerResources{}
	}
	return &runtimeapi.LinuxContainerResources{
		CpuPeriod:              host.CPUPeriod,
		CpuQuota:               host.CPUQuota,
		CpuShares:              host.CPUShares,
		MemoryLimitInBytes:     host.Memory,
		MemorySwapLimitInBytes: host.MemorySwap,
		OomScoreAdj:            int64(host.OomScoreAdj),
		CpusetCpus:             host.CpusetCpus,
		CpusetMems:             host.CpusetMems,
	}
}

// unmarshal reads a configuration of the checkpoint. It ignores fields of a newer CRI. fields name the pod or container
// in the log.
func unmarshal(ctx context.Context, raw []byte, into proto.Message, fields log.Fields) bool {
	if len(raw) == 0 {
		return false
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, into); err != nil {
		log.G(ctx).WithError(err).WithFields(fields).Warn("cannot read configuration in checkpoint, using labels")
		return false
	}
	return true
}
