package nri

import (
	"encoding/json"

	"github.com/containerd/nri/pkg/api"
	ocispec "github.com/opencontainers/runtime-spec/specs-go"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// Versions of the OCI runtime specification that have fields which older runtimes ignore.
const (
	withScheduler = "1.1.0" // process.scheduler and process.ioPriority
	withDevices   = "1.3.0" // linux.netDevices, linux.memoryPolicy, linux.intelRdt.schemata and .enableMonitoring
)

// adjustment returns the adjustments of plugins as a part of the note and as limits. Without adjustments the part is
// nil. removedEnv has the names of variables that plugins remove.
func (s *Service) adjustment(
	a *api.ContainerAdjustment, removedEnv []string,
) (*ocinote.Adjustment, *runtimeapi.LinuxContainerResources, error) {
	a = a.Strip()
	note := &ocinote.Adjustment{Args: a.GetArgs(), Hooks: hooks(a.GetHooks())}
	note.Process.RemoveEnv = removedEnv
	setMounts(note, a.GetMounts())
	setEnv(&note.Process, a.GetEnv())
	for _, limit := range a.GetRlimits() {
		note.Process.Rlimits = append(note.Process.Rlimits,
			ocinote.Rlimit{Type: limit.GetType(), Hard: limit.GetHard(), Soft: limit.GetSoft()})
	}
	linux := a.GetLinux()
	setDevices(note, linux.GetDevices())
	setNamespaces(note, linux.GetNamespaces())
	config, process, limits, err := fields(note, a)
	if err != nil {
		return nil, nil, err
	}
	if err := s.addCDI(note, a.GetCDIDevices()); err != nil {
		return nil, nil, err
	}
	if linux.GetSeccompPolicy() != nil {
		// The next patch then replaces the profile instead of being merged into it.
		note.Config = append(note.Config, json.RawMessage(`{"linux":{"seccomp":null}}`))
	}
	if note.Config, err = appendPatch(note.Config, config); err != nil {
		return nil, nil, err
	}
	if len(process) > 0 {
		if note.Process.Patch, err = json.Marshal(process); err != nil {
			return nil, nil, err
		}
	}
	if note.Empty() {
		note = nil
	}
	return note, limits, nil
}

// patch is a JSON merge patch.
type patch map[string]any

func appendPatch(patches []json.RawMessage, p patch) ([]json.RawMessage, error) {
	if len(p) == 0 {
		return patches, nil
	}
	text, err := json.Marshal(p)
	return append(patches, text), err
}

// fields returns the patches of the configuration and of its process, and the limits.
func fields(
	note *ocinote.Adjustment, a *api.ContainerAdjustment,
) (config, process patch, limits *runtimeapi.LinuxContainerResources, err error) {
	config, process, linux := patch{}, patch{}, patch{}
	if values := texts(a.GetAnnotations()); len(values) > 0 {
		config["annotations"] = values
	}
	l := a.GetLinux()
	if values := texts(l.GetSysctl()); len(values) > 0 {
		linux["sysctl"] = values
	}
	if path := l.GetCgroupsPath(); path != "" {
		linux["cgroupsPath"] = path
	}
	if policy := l.GetSeccompPolicy(); policy != nil {
		linux["seccomp"] = seccomp(policy)
	}
	set(process, "oomScoreAdj", l.GetOomScoreAdj().Get())
	newer(note, l, linux, process)
	resources, limits, err := resourcesOf(note, l)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(resources) > 0 {
		linux["resources"] = resources
	}
	if len(linux) > 0 {
		config["linux"] = linux
	}
	return config, process, limits, nil
}

// newer sets the fields that older runtimes ignore, and the OCI version that the runtime must support.
func newer(note *ocinote.Adjustment, l *api.LinuxContainerAdjustment, linux, process patch) {
	need := func(version string) { note.OCIVersion = max(note.OCIVersion, version) }
	if priority := l.GetIoPriority(); priority != nil {
		process["ioPriority"] = priority.ToOCI()
		need(withScheduler)
	}
	if scheduler := l.GetScheduler(); scheduler != nil {
		process["scheduler"] = scheduler.ToOCI()
		need(withScheduler)
	}
	if devices := l.GetNetDevices(); len(devices) > 0 {
		linux["netDevices"] = entries(devices, func(device *api.LinuxNetDevice) any { return device.ToOCI() })
		need(withDevices)
	}
	if policy := l.GetMemoryPolicy(); policy != nil {
		linux["memoryPolicy"] = policy.ToOCI()
		need(withDevices)
	}
	if rdt := l.GetRdt(); rdt != nil {
		linux["intelRdt"] = rdtPatch(rdt, need)
	}
}

func rdtPatch(rdt *api.LinuxRdt, need func(string)) any {
	values := patch{}
	if rdt.GetRemove() {
		values = patch{"closID": nil, "schemata": nil, "enableMonitoring": nil}
	}
	set(values, "closID", rdt.GetClosId().Get())
	set(values, "schemata", rdt.GetSchemata().Get())
	set(values, "enableMonitoring", rdt.GetEnableMonitoring().Get())
	if rdt.GetSchemata() != nil || rdt.GetEnableMonitoring() != nil {
		need(withDevices)
	}
	return values
}

// resourcesOf returns the limits that CRI has a field for, and a patch of linux.resources with the other limits.
func resourcesOf(
	note *ocinote.Adjustment, l *api.LinuxContainerAdjustment,
) (patch, *runtimeapi.LinuxContainerResources, error) {
	r := l.GetResources()
	if r == nil && l.GetOomScoreAdj() == nil {
		return nil, nil, nil
	}
	if err := checkClasses(r); err != nil {
		return nil, nil, err
	}
	for _, rule := range r.GetDevices() {
		text, err := json.Marshal(ocispec.LinuxDeviceCgroup{Allow: rule.Allow, Type: rule.Type,
			Major: rule.Major.Get(), Minor: rule.Minor.Get(), Access: rule.Access})
		if err != nil {
			return nil, nil, err
		}
		note.DeviceRules = append(note.DeviceRules, text)
	}
	rest := patch{}
	if memory := memoryPatch(r.GetMemory()); len(memory) > 0 {
		rest["memory"] = memory
	}
	if cpu := cpuPatch(r.GetCpu()); len(cpu) > 0 {
		rest["cpu"] = cpu
	}
	if pids := r.GetPids(); pids != nil {
		rest["pids"] = patch{"limit": pids.GetLimit()}
	}
	limits, _, err := toCRI(&api.LinuxResources{
		Memory: &api.LinuxMemory{Limit: r.GetMemory().GetLimit(), Swap: r.GetMemory().GetSwap()},
		Cpu:    r.GetCpu(), HugepageLimits: r.GetHugepageLimits(), Unified: r.GetUnified()})
	if err != nil {
		return nil, nil, err
	}
	limits.OomScoreAdj = l.GetOomScoreAdj().GetValue()
	return rest, limits, nil
}

func memoryPatch(memory *api.LinuxMemory) patch {
	p := patch{}
	set(p, "reservation", memory.GetReservation().Get())
	set(p, "kernel", memory.GetKernel().Get())
	set(p, "kernelTCP", memory.GetKernelTcp().Get())
	set(p, "swappiness", memory.GetSwappiness().Get())
	set(p, "disableOOMKiller", memory.GetDisableOomKiller().Get())
	set(p, "useHierarchy", memory.GetUseHierarchy().Get())
	return p
}

func cpuPatch(cpu *api.LinuxCPU) patch {
	p := patch{}
	set(p, "realtimeRuntime", cpu.GetRealtimeRuntime().Get())
	set(p, "realtimePeriod", cpu.GetRealtimePeriod().Get())
	return p
}

// set sets a field to an optional value.
func set[T any](p patch, field string, value *T) {
	if value != nil {
		p[field] = *value
	}
}

// texts is entries for a map of strings.
func texts(values map[string]string) patch {
	return entries(values, func(value string) any { return value })
}

// entries is a patch of a map. A key that is marked for removal is removed, unless the map also has a value for it: for
// a replaced entry the library sends the mark and the new value.
func entries[V any](values map[string]V, convert func(V) any) patch {
	p := patch{}
	for key, value := range values {
		name, removed := api.IsMarkedForRemoval(key)
		if !removed {
			p[key] = convert(value)
		} else if _, set := values[name]; !set {
			p[name] = nil
		}
	}
	return p
}

func setMounts(note *ocinote.Adjustment, mounts []*api.Mount) {
	for _, m := range mounts {
		destination, removed := m.IsMarkedForRemoval()
		if removed {
			note.RemoveMounts = append(note.RemoveMounts, destination)
			continue
		}
		note.Mounts = append(note.Mounts, ocinote.Mount{Destination: m.GetDestination(), Type: m.GetType(),
			Source: m.GetSource(), Options: m.GetOptions()})
	}
}

func setEnv(process *ocinote.ProcessAdjustment, env []*api.KeyValue) {
	for _, variable := range env {
		if name, removed := variable.IsMarkedForRemoval(); removed {
			process.RemoveEnv = append(process.RemoveEnv, name)
		} else {
			process.Env = append(process.Env, variable.ToOCI())
		}
	}
}

func setDevices(note *ocinote.Adjustment, devices []*api.LinuxDevice) {
	for _, d := range devices {
		path, removed := d.IsMarkedForRemoval()
		if removed {
			note.RemoveDevices = append(note.RemoveDevices, path)
			continue
		}
		device := ocinote.Device{Path: d.GetPath(), Type: d.GetType(), Major: d.GetMajor(), Minor: d.GetMinor(),
			Access: d.AccessString(), UID: d.GetUid().Get(), GID: d.GetGid().Get()}
		if mode := d.GetFileMode(); mode != nil {
			device.FileMode = &mode.Value
		}
		note.Devices = append(note.Devices, device)
	}
}

func setNamespaces(note *ocinote.Adjustment, namespaces []*api.LinuxNamespace) {
	for _, n := range namespaces {
		kind, removed := n.IsMarkedForRemoval()
		if removed {
			note.RemoveNamespaces = append(note.RemoveNamespaces, kind)
			continue
		}
		if note.Namespaces == nil {
			note.Namespaces = map[string]string{}
		}
		note.Namespaces[n.GetType()] = n.GetPath()
	}
}

func hooks(h *api.Hooks) map[string][]ocinote.Hook {
	all := map[string][]ocinote.Hook{}
	for when, list := range map[string][]*api.Hook{
		"prestart": h.GetPrestart(), "createRuntime": h.GetCreateRuntime(), "createContainer": h.GetCreateContainer(),
		"startContainer": h.GetStartContainer(), "poststart": h.GetPoststart(), "poststop": h.GetPoststop(),
	} {
		for _, hook := range list {
			all[when] = append(all[when], ocinote.Hook{Path: hook.GetPath(), Args: hook.GetArgs(), Env: hook.GetEnv(),
				Timeout: hook.GetTimeout().Get()})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func seccomp(policy *api.LinuxSeccomp) *ocispec.LinuxSeccomp {
	profile := &ocispec.LinuxSeccomp{
		DefaultAction: ocispec.LinuxSeccompAction(policy.GetDefaultAction()), ListenerPath: policy.GetListenerPath(),
		ListenerMetadata: policy.GetListenerMetadata(), Syscalls: api.ToOCILinuxSyscalls(policy.GetSyscalls()),
	}
	if errno := policy.GetDefaultErrno(); errno != nil {
		profile.DefaultErrnoRet = new(uint(errno.GetValue()))
	}
	for _, arch := range policy.GetArchitectures() {
		profile.Architectures = append(profile.Architectures, ocispec.Arch(arch))
	}
	for _, flag := range policy.GetFlags() {
		profile.Flags = append(profile.Flags, ocispec.LinuxSeccompFlag(flag))
	}
	return profile
}

// addCDI adds the edits of CDI devices.
func (s *Service) addCDI(note *ocinote.Adjustment, devices []*api.CDIDevice) error {
	if len(devices) == 0 {
		return nil
	}
	var names []string
	for _, device := range devices {
		names = append(names, device.GetName())
	}
	edits, err := s.opts.ReadCDI(names)
	if err != nil {
		return unsupported("CDI_devices", err.Error())
	}
	edits.Adjust(note)
	return nil
}
