package state

import (
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// fromInspect turns the engine's view of one container, and what the
// checkpoint holds of it, into a *Pod or a *Container; nil when it is neither, or
// another criadapter's.
func (m *Mirror) fromInspect(inspect *container.InspectResponse) any {
	if inspect.Config == nil || inspect.State == nil {
		return nil
	}
	name := strings.TrimPrefix(inspect.Name, "/")
	if m.owner(inspect.ID, name, inspect.Config.Labels) != "" {
		return nil
	}
	switch translate.Identify(name, inspect.Config.Labels) {
	case translate.KindSandbox:
		return podFromInspect(inspect, name, m.record(inspect.ID))
	case translate.KindContainer:
		return m.containerFromInspect(inspect, name)
	default:
		return nil
	}
}

// record returns the checkpoint of a pod, nil when there is none.
func (m *Mirror) record(sandboxID string) *checkpoint.Record {
	record, err := m.opts.Records.Load(sandboxID)
	if err != nil {
		if !errdefs.IsNotFound(err) {
			logrus.WithError(err).WithField("sandbox", sandboxID).Warn("cannot read a pod's checkpoint, using the engine's labels")
		}
		return nil
	}
	return &record
}

// NewPod makes the mirror's entry of a pod that has just been set up.
func NewPod(inspect *container.InspectResponse, record checkpoint.Record) Pod {
	return *podFromInspect(inspect, strings.TrimPrefix(inspect.Name, "/"), &record)
}

func podFromInspect(inspect *container.InspectResponse, name string, record *checkpoint.Record) *Pod {
	pod := &Pod{
		ID: inspect.ID,
		Meta: PodMeta{
			Name:      name,
			CreatedAt: parseTime(inspect.Created),
			ImageID:   inspect.Image,
		},
		Status: PodStatus{
			Running:    inspect.State.Running,
			PID:        inspect.State.Pid,
			StartedAt:  parseTime(inspect.State.StartedAt),
			FinishedAt: parseTime(inspect.State.FinishedAt),
		},
	}
	if inspect.HostConfig != nil {
		pod.Meta.HostNetwork = inspect.HostConfig.NetworkMode.IsHost()
	}
	pod.Meta.Config = podConfigFromLabels(inspect, name)
	switch {
	case record != nil:
		fromRecord(pod, *record)
	case !translate.MadeByUs(inspect.Config.Labels):
		// Another shim's pod: its network is known where Docker made it.
		pod.Status.NetworkReady = true
		pod.Status.IPs = docker.Addresses(inspect)
	}
	// A pod of ours without a record is one whose set-up was cut short before
	// it had an address: it stays NOTREADY.
	return pod
}

// fromRecord fills in what the checkpoint knows of a pod.
func fromRecord(pod *Pod, record checkpoint.Record) {
	config := &runtimeapi.PodSandboxConfig{}
	switch {
	case unmarshal(record.Config, config, record.SandboxID):
		pod.Meta.Config = config
	case pod.Meta.Config == nil:
		pod.Meta.Config = &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{
			Name: record.Name, Namespace: record.Namespace, Uid: record.UID, Attempt: record.Attempt,
		}}
	}
	pod.Meta.RuntimeHandler = record.RuntimeHandler
	pod.Status.NetnsPath = record.NetnsPath
	pod.Status.Stopping = record.Phase == checkpoint.PhaseStopped
	pod.Status.NetworkReady = record.Phase == checkpoint.PhaseReady
	if record.Network != nil {
		pod.Status.IPs = record.Network.IPs
	}
}

func podConfigFromLabels(inspect *container.InspectResponse, name string) *runtimeapi.PodSandboxConfig {
	config, err := translate.PodConfig(inspect.Config.Labels, name)
	if err != nil {
		logrus.WithError(err).WithField("sandbox", inspect.ID).Warn("cannot read a pod's labels")
		return &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{}}
	}
	return config
}

func (m *Mirror) containerFromInspect(inspect *container.InspectResponse, name string) *Container {
	config, sandboxID, err := translate.ContainerConfig(inspect.Config.Labels, name)
	if err != nil {
		logrus.WithError(err).WithField("container", inspect.ID).Warn("cannot read a container's labels")
		return nil
	}
	c := &Container{
		ID:        inspect.ID,
		SandboxID: sandboxID,
		Meta: ContainerMeta{
			Name:          name,
			Config:        config,
			ImageID:       inspect.Image,
			CreatedAt:     parseTime(inspect.Created),
			LogDriver:     logDriver(inspect),
			EngineLogPath: inspect.LogPath,
			LogPath:       translate.LogPath(inspect.Config.Labels),
			User:          inspect.Config.User,
			StopSignal:    inspect.Config.StopSignal,
			UpperDir:      upperDir(inspect),
		},
		Status: containerStatus(inspect),
	}
	if c.Meta.StopSignal == "" {
		c.Meta.StopSignal = "SIGTERM"
	}
	if record := m.record(sandboxID); record != nil {
		if kept, ok := record.Containers[inspect.ID]; ok {
			full := &runtimeapi.ContainerConfig{}
			if unmarshal(kept.Config, full, inspect.ID) {
				c.Meta.Config = full
			}
			if kept.User != nil && c.Status.Identity == nil && !c.Status.StartedAt.IsZero() {
				c.Status.Identity = &docker.Identity{UID: kept.User.UID, GID: kept.User.GID, Groups: kept.User.Groups}
			}
		}
	}
	if c.Meta.Config.Image == nil {
		c.Meta.Config.Image = &runtimeapi.ImageSpec{Image: inspect.Config.Image}
	}
	c.Status.Resources = &runtimeapi.ContainerResources{Linux: resourcesInForce(c.Meta.Config, inspect.HostConfig)}
	return c
}

// upperDir is where the drivers of the overlay family say that they keep what a
// container writes.
func upperDir(inspect *container.InspectResponse) string {
	if inspect.GraphDriver == nil {
		return ""
	}
	return inspect.GraphDriver.Data["UpperDir"]
}

func containerStatus(inspect *container.InspectResponse) ContainerStatus {
	s := ContainerStatus{
		Running:    inspect.State.Running || inspect.State.Paused || inspect.State.Restarting,
		PID:        inspect.State.Pid,
		StartedAt:  parseTime(inspect.State.StartedAt),
		FinishedAt: parseTime(inspect.State.FinishedAt),
		ExitCode:   inspect.State.ExitCode,
		OOMKilled:  inspect.State.OOMKilled,
		Error:      inspect.State.Error,
	}
	if s.Running {
		s.FinishedAt = time.Time{} // the end of an earlier run
		s.ExitCode, s.OOMKilled, s.Error = 0, false, ""
		// Read once here, not by every request that wants to know.
		if identity, err := docker.InitialIdentity(inspect.ID, s.PID); err == nil {
			s.Identity = &identity
		}
		return s
	}
	if inspect.State.Status == container.StateCreated && (s.ExitCode != 0 || s.Error != "") && s.FinishedAt.IsZero() {
		// A failed start leaves a created container with an exit code. The
		// kubelet must see it ended, and the engine has no time for it.
		s.StartedAt = parseTime(inspect.Created)
		s.FinishedAt = s.StartedAt
	}
	if inspect.State.Dead && s.FinishedAt.IsZero() {
		s.Unknown = true
	}
	return s
}

// resourcesInForce is what the client asked for, where that is known, and else
// what the engine holds.
func resourcesInForce(config *runtimeapi.ContainerConfig, host *container.HostConfig) *runtimeapi.LinuxContainerResources {
	if wanted := config.GetLinux().GetResources(); wanted != nil {
		return proto.Clone(wanted).(*runtimeapi.LinuxContainerResources)
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

// unmarshal reads a configuration of the checkpoint. Fields of a newer CRI are
// passed over.
func unmarshal(raw []byte, into proto.Message, id string) bool {
	if len(raw) == 0 {
		return false
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, into); err != nil {
		logrus.WithError(err).WithField("id", id).Warn("cannot read a configuration in the checkpoint, using the engine's labels")
		return false
	}
	return true
}

// parseTime reads the engine's times; its zero time and garbage are zero.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// logDriver returns the container's log driver, empty when the engine does not
// tell it.
func logDriver(inspect *container.InspectResponse) string {
	if inspect.HostConfig == nil {
		return ""
	}
	return inspect.HostConfig.LogConfig.Type
}
