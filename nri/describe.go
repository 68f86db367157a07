package nri

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/state"
)

// describePod returns NRI's description of a pod, an empty one for nil.
func describePod(pod *state.Pod) *api.PodSandbox {
	if pod == nil {
		return &api.PodSandbox{}
	}
	config := pod.Meta.Config
	overhead, resources := pod.Status.Overhead, pod.Status.Resources
	return &api.PodSandbox{
		Id: pod.ID, Name: config.GetMetadata().GetName(), Uid: config.GetMetadata().GetUid(),
		Namespace: config.GetMetadata().GetNamespace(), Labels: config.GetLabels(),
		Annotations: config.GetAnnotations(), RuntimeHandler: pod.Meta.RuntimeHandler,
		Linux: &api.LinuxPodSandbox{
			PodOverhead: fromCRI(overhead), PodResources: fromCRI(resources),
			CgroupParent: config.GetLinux().GetCgroupParent(), Namespaces: podNamespaces(pod),
		},
		Pid: uint32(pod.Status.PID), Ips: pod.Status.IPs,
	}
}

func podNamespaces(pod *state.Pod) []*api.LinuxNamespace {
	var all []*api.LinuxNamespace
	add := func(kind, path string) {
		if path != "" {
			all = append(all, &api.LinuxNamespace{Type: kind, Path: path})
		}
	}
	add("network", pod.Status.NetnsPath)
	add("user", pod.Status.UserNamespace)
	if others := pod.Status.Namespaces; others != nil {
		add("ipc", others.IPC)
		add("uts", others.UTS)
	}
	return all
}

// describeState describes a container as the cache knows it. The maps of annotations and limits are copies, because the
// NRI library writes the changes of plugins into them.
func describeState(c *state.Container) *api.Container {
	config := c.Meta.Config
	described := &api.Container{
		Id: c.ID, PodSandboxId: c.SandboxID, Name: config.GetMetadata().GetName(), State: states[c.Status.State()],
		Labels: config.GetLabels(), Annotations: maps.Clone(config.GetAnnotations()), Pid: uint32(c.Status.PID),
		ExitCode: int32(c.Status.ExitCode), StatusMessage: c.Status.Error,
		Image: &api.Image{Name: config.GetImage().GetUserSpecifiedImage(), ConfigDigest: c.Meta.ImageID},
		Linux: &api.LinuxContainer{Resources: fromCRI(limitsOf(c)),
			OomScoreAdj: api.Int(int(limitsOf(c).GetOomScoreAdj()))},
	}
	if _, digest, found := strings.Cut(c.Meta.ImageRef, "@"); found {
		described.Image.Digest = digest
	}
	if !c.Meta.CreatedAt.IsZero() {
		described.CreatedAt = c.Meta.CreatedAt.UnixNano()
	}
	if !c.Status.StartedAt.IsZero() {
		described.StartedAt = c.Status.StartedAt.UnixNano()
	}
	if !c.Status.FinishedAt.IsZero() {
		described.FinishedAt = c.Status.FinishedAt.UnixNano()
	}
	if profile := config.GetLinux().GetSecurityContext().GetSeccomp(); profile != nil {
		described.Linux.SeccompProfile = &api.SecurityProfile{
			ProfileType:  api.SecurityProfile_ProfileType(profile.GetProfileType()),
			LocalhostRef: profile.GetLocalhostRef()}
	}
	for _, device := range config.GetCDIDevices() {
		described.CDIDevices = append(described.CDIDevices, &api.CDIDevice{Name: device.GetName()})
	}
	return described
}

// limitsOf returns the present limits, or the wanted ones of a container that is not in the cache yet.
func limitsOf(c *state.Container) *runtimeapi.LinuxContainerResources {
	if limits := c.Status.Resources.GetLinux(); limits != nil {
		return limits
	}
	return c.Meta.Config.GetLinux().GetResources()
}

const stateExited = runtimeapi.ContainerState_CONTAINER_EXITED

// states are NRI's names of states. Any other state is unknown.
var states = map[runtimeapi.ContainerState]api.ContainerState{
	runtimeapi.ContainerState_CONTAINER_CREATED: api.ContainerState_CONTAINER_CREATED,
	runtimeapi.ContainerState_CONTAINER_RUNNING: api.ContainerState_CONTAINER_RUNNING,
	stateExited: api.ContainerState_CONTAINER_STOPPED,
}

// describeTime bounds the engine's description of a container.
const describeTime = 10 * time.Second

// describeAnyhow is describe, or describeState if the engine does not answer in time or the container is being removed.
func (s *Service) describeAnyhow(ctx context.Context, c *state.Container) *api.Container {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	described, err := s.describe(ctx, c)
	if err != nil {
		return describeState(c)
	}
	return described
}

// describe describes a container as the engine has it, with the adjustments of earlier plugins.
func (s *Service) describe(ctx context.Context, c *state.Container) (*api.Container, error) {
	inspect, err := s.opts.Engine.InspectContainer(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	adjusted, err := s.opts.Engine.Adjustment(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	described := describeState(c)
	described.Args = append([]string{inspect.Path}, inspect.Args...)
	if inspect.Config != nil {
		described.Env, described.User = inspect.Config.Env, numericUser(inspect.Config.User)
	}
	if id := c.Status.Identity; id != nil {
		described.User = &api.User{Uid: id.UID, Gid: id.GID, AdditionalGids: id.Groups}
	}
	for _, m := range inspect.Mounts {
		described.Mounts = append(described.Mounts, describeMount(m))
	}
	if inspect.HostConfig != nil {
		describeHost(described, inspect.HostConfig)
		snapshot := s.opts.Cache.Snapshot()
		described.Linux.Namespaces = describeNamespaces(snapshot, snapshot.PodOf(c), inspect.HostConfig)
	}
	if adjusted != nil {
		showAdjusted(described, adjusted)
	}
	return described, nil
}

func describeMount(m container.MountPoint) *api.Mount {
	described := &api.Mount{Destination: m.Destination, Type: string(m.Type), Source: m.Source}
	if m.Type != mount.TypeTmpfs {
		described.Type, described.Options = "bind", []string{"rbind"}
	}
	if m.RW {
		described.Options = append(described.Options, "rw")
	} else {
		described.Options = append(described.Options, "ro")
	}
	if m.Propagation != "" {
		described.Options = append(described.Options, string(m.Propagation))
	}
	return described
}

func describeHost(described *api.Container, host *container.HostConfig) {
	described.Linux.Sysctl = host.Sysctls
	described.Linux.CgroupsPath = cgroupsPath(described.GetId(), host.CgroupParent)
	for _, limit := range host.Ulimits {
		described.Rlimits = append(described.Rlimits, &api.POSIXRlimit{
			Type: "RLIMIT_" + strings.ToUpper(limit.Name), Hard: uint64(limit.Hard), Soft: uint64(limit.Soft)})
	}
	for _, mapping := range host.Devices {
		device, rule := describeDevice(mapping)
		described.Linux.Devices = append(described.Linux.Devices, device)
		if rule != nil {
			described.Linux.Resources.Devices = append(described.Linux.Resources.Devices, rule)
		}
	}
	if pids := host.PidsLimit; pids != nil && *pids > 0 {
		described.Linux.Resources.Pids = &api.LinuxPids{Limit: *pids}
	}
}

// describeDevice describes a device and the container's access to it, as its OCI configuration does. Plugins find the
// NUMA node of a device by its numbers. A directory of devices, and a device that is gone, have only a path.
func describeDevice(mapping container.DeviceMapping) (*api.LinuxDevice, *api.LinuxDeviceCgroup) {
	device := &api.LinuxDevice{Path: mapping.PathInContainer}
	info, err := os.Stat(mapping.PathOnHost)
	if err != nil || info.Mode()&fs.ModeDevice == 0 {
		return device, nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return device, nil
	}
	device.Type = "b"
	if info.Mode()&fs.ModeCharDevice != 0 {
		device.Type = "c"
	}
	device.Major, device.Minor = int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev))
	device.FileMode = api.FileMode(info.Mode().Perm())
	device.Uid, device.Gid = api.UInt32(stat.Uid), api.UInt32(stat.Gid)
	return device, &api.LinuxDeviceCgroup{Allow: true, Type: device.Type, Major: api.Int64(device.Major),
		Minor: api.Int64(device.Minor), Access: mapping.CgroupPermissions}
}

// numericUser returns the user of "uid[:gid]", nil for names, which the engine looks up at the start.
func numericUser(text string) *api.User {
	uidText, gidText, hasGroup := strings.Cut(text, ":")
	uid, err := strconv.ParseUint(uidText, 10, 32)
	if err != nil {
		return nil
	}
	user := &api.User{Uid: uint32(uid)}
	if hasGroup {
		gid, err := strconv.ParseUint(gidText, 10, 32)
		if err != nil {
			return nil
		}
		user.Gid = uint32(gid)
	}
	return user
}

// showAdjusted applies the adjustments that plugins see.
func showAdjusted(described *api.Container, a *ocinote.Adjustment) {
	described.Env = a.Process.EditEnv(described.Env)
	mounts, devices := slices.Clone(a.RemoveMounts), slices.Clone(a.RemoveDevices) // and replaced ones
	for _, m := range a.Mounts {
		mounts = append(mounts, m.Destination)
	}
	for _, device := range a.Devices {
		devices = append(devices, device.Path)
	}
	showNamespaces(described.Linux, a)
	described.Mounts = slices.DeleteFunc(described.Mounts,
		func(m *api.Mount) bool { return slices.Contains(mounts, m.GetDestination()) })
	described.Linux.Devices = slices.DeleteFunc(described.Linux.Devices,
		func(d *api.LinuxDevice) bool { return slices.Contains(devices, d.GetPath()) })
	for _, patch := range a.Config {
		showPatch(described, patch)
	}
	for _, m := range a.Mounts {
		described.Mounts = append(described.Mounts,
			&api.Mount{Destination: m.Destination, Type: m.Type, Source: m.Source, Options: m.Options})
	}
	for _, device := range a.Devices {
		described.Linux.Devices = append(described.Linux.Devices,
			&api.LinuxDevice{Path: device.Path, Type: device.Type, Major: device.Major, Minor: device.Minor})
	}
	for _, limit := range a.Process.Rlimits {
		described.Rlimits = slices.DeleteFunc(described.Rlimits,
			func(r *api.POSIXRlimit) bool { return r.GetType() == limit.Type })
		described.Rlimits = append(described.Rlimits,
			&api.POSIXRlimit{Type: limit.Type, Hard: limit.Hard, Soft: limit.Soft})
	}
	if len(a.Args) > 0 {
		described.Args = a.Args
	}
}

// showNamespaces applies removed, replaced and added namespaces.
func showNamespaces(linux *api.LinuxContainer, a *ocinote.Adjustment) {
	linux.Namespaces = slices.DeleteFunc(linux.Namespaces, func(n *api.LinuxNamespace) bool {
		_, replaced := a.Namespaces[n.GetType()]
		return replaced || slices.Contains(a.RemoveNamespaces, n.GetType())
	})
	for _, kind := range slices.Sorted(maps.Keys(a.Namespaces)) {
		linux.Namespaces = append(linux.Namespaces, &api.LinuxNamespace{Type: kind, Path: a.Namespaces[kind]})
	}
}

// showPatch applies the annotations, sysctls and cgroup of a JSON merge patch of the configuration.
func showPatch(described *api.Container, patch json.RawMessage) {
	var config struct {
		Annotations map[string]*string
		Linux       struct {
			Sysctl      map[string]*string
			CgroupsPath string
		}
	}
	if json.Unmarshal(patch, &config) != nil { // not a patch of this package
		return
	}
	described.Annotations = patched(described.Annotations, config.Annotations)
	described.Linux.Sysctl = patched(described.Linux.Sysctl, config.Linux.Sysctl)
	if path := config.Linux.CgroupsPath; path != "" {
		described.Linux.CgroupsPath = path
	}
}

// patched applies a merge patch to a map, which it may change. Keys with nil are removed.
func patched(values map[string]string, patch map[string]*string) map[string]string {
	for key, value := range patch {
		if value == nil {
			delete(values, key)
			continue
		}
		if values == nil {
			values = map[string]string{}
		}
		values[key] = *value
	}
	return values
}
