package nri

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestAdjustment(t *testing.T) {
	for name, c := range map[string]struct {
		adjust       func(*api.ContainerAdjustment)
		note, limits string
	}{
		"nothing": {func(*api.ContainerAdjustment) {}, "null", ""},
		"texts": {func(a *api.ContainerAdjustment) {
			a.AddAnnotation("a", "1")
			a.RemoveAnnotation("b")
			a.SetLinuxSysctl("net.x", "2")
		}, `{"config":[{"annotations":{"a":"1","b":null},"linux":{"sysctl":{"net.x":"2"}}}]}`, ""},
		"mounts": {func(a *api.ContainerAdjustment) {
			a.AddMount(&api.Mount{Destination: "/a", Type: "bind", Source: "/s", Options: []string{"ro"}})
			a.RemoveMount("/b")
		}, `{"removeMounts":["/b"],"mounts":[{"destination":"/a","type":"bind","source":"/s","options":["ro"]}]}`, ""},
		"process": {func(a *api.ContainerAdjustment) {
			a.AddEnv("A", "1=2")
			a.RemoveEnv("B")
			a.SetArgs([]string{"x", "y"})
			a.AddRlimit("RLIMIT_CORE", 2, 1)
			a.SetLinuxOomScoreAdj(new(-3))
		}, `{"args":["x","y"],"process":{"patch":{"oomScoreAdj":-3},"removeEnv":["B"],"env":["A=1=2"],` +
			`"rlimits":[{"type":"RLIMIT_CORE","hard":2,"soft":1}]}}`, `{"oomScoreAdj":"-3"}`},
		"devices and namespaces": {func(a *api.ContainerAdjustment) {
			a.AddDevice(&api.LinuxDevice{Path: "/dev/a", Type: "c", Major: 1, Minor: 2, Uid: api.UInt32(uint32(0))})
			a.RemoveDevice("/dev/b")
			a.AddOrReplaceNamespace(&api.LinuxNamespace{Type: "ipc", Path: "/p"})
			a.RemoveNamespace(&api.LinuxNamespace{Type: "uts"})
		}, `{"removeDevices":["/dev/b"],"removeNamespaces":["uts"],` +
			`"devices":[{"path":"/dev/a","type":"c","major":1,"minor":2,"access":"rw","uid":0}],` +
			`"namespaces":{"ipc":"/p"}}`, ""},
		"hooks": {func(a *api.ContainerAdjustment) {
			a.AddHooks(&api.Hooks{Poststop: []*api.Hook{{Path: "/h", Args: []string{"h"}, Timeout: api.Int(3)}}})
		}, `{"hooks":{"poststop":[{"path":"/h","args":["h"],"timeout":3}]}}`, ""},
		"limits of CRI": {func(a *api.ContainerAdjustment) {
			a.SetLinuxMemoryLimit(1)
			a.SetLinuxMemorySwap(2)
			a.SetLinuxCPUShares(3)
			a.SetLinuxCPUQuota(4)
			a.SetLinuxCPUPeriod(5)
			a.SetLinuxCPUSetCPUs("6")
			a.SetLinuxCPUSetMems("7")
			a.AddLinuxHugepageLimit("2MB", 8)
			a.AddLinuxUnified("memory.high", "9")
		}, "null", `{"cpuPeriod":"5","cpuQuota":"4","cpuShares":"3","memoryLimitInBytes":"1","cpusetCpus":"6",` +
			`"cpusetMems":"7","hugepageLimits":[{"pageSize":"2MB","limit":"8"}],"unified":{"memory.high":"9"},` +
			`"memorySwapLimitInBytes":"2"}`},
		"other limits": {func(a *api.ContainerAdjustment) {
			a.SetLinuxMemoryReservation(1)
			a.SetLinuxMemoryKernel(2)
			a.SetLinuxMemoryKernelTCP(3)
			a.SetLinuxMemorySwappiness(4)
			a.SetLinuxMemoryDisableOomKiller()
			a.SetLinuxMemoryUseHierarchy()
			a.SetLinuxCPURealtimeRuntime(5)
			a.SetLinuxCPURealtimePeriod(6)
			a.SetLinuxPidLimits(7)
			a.Linux.Resources.Devices = []*api.LinuxDeviceCgroup{{Allow: true, Type: "c", Major: api.Int64(int64(1)),
				Access: "r"}}
		}, `{"deviceRules":[{"allow":true,"type":"c","major":1,"access":"r"}],"config":[{"linux":{"resources":{` +
			`"cpu":{"realtimePeriod":6,"realtimeRuntime":5},"memory":{"disableOOMKiller":true,"kernel":2,` +
			`"kernelTCP":3,"reservation":1,"swappiness":4,"useHierarchy":true},"pids":{"limit":7}}}}]}`, "{}"},
		"a cgroup and a profile": {func(a *api.ContainerAdjustment) {
			a.SetLinuxCgroupsPath("/c")
			a.SetLinuxSeccompPolicy(&api.LinuxSeccomp{
				DefaultAction: "SCMP_ACT_ERRNO", DefaultErrno: api.UInt32(uint32(7)),
				Architectures: []string{"SCMP_ARCH_X86"}, Flags: []string{"SECCOMP_FILTER_FLAG_LOG"},
				Syscalls: []*api.LinuxSyscall{{Names: []string{"read"}, Action: "SCMP_ACT_ALLOW"}}})
		}, `{"config":[{"linux":{"seccomp":null}},{"linux":{"cgroupsPath":"/c","seccomp":{"defaultAction":` +
			`"SCMP_ACT_ERRNO","defaultErrnoRet":7,"architectures":["SCMP_ARCH_X86"],` +
			`"flags":["SECCOMP_FILTER_FLAG_LOG"],"syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW"}]}}}]}`, ""},
		"a scheduler": {func(a *api.ContainerAdjustment) {
			a.SetLinuxScheduler(&api.LinuxScheduler{Policy: api.LinuxSchedulerPolicy_SCHED_BATCH})
			a.SetLinuxIOPriority(&api.LinuxIOPriority{Class: api.IOPrioClass_IOPRIO_CLASS_BE, Priority: 6})
		}, `{"process":{"patch":{"ioPriority":{"class":"IOPRIO_CLASS_BE","priority":6},` +
			`"scheduler":{"policy":"SCHED_BATCH"}}},"ociVersion":"1.1.0"}`, ""},
		"fields of 1.3": {func(a *api.ContainerAdjustment) {
			a.SetLinuxMemoryPolicy(api.MpolMode_MPOL_BIND, "0", api.MpolFlag_MPOL_F_STATIC_NODES)
			a.AddLinuxNetDevice("eth1", &api.LinuxNetDevice{Name: "in"})
			a.RemoveLinuxNetDevice("eth2")
			a.SetLinuxRDTClosID("c")
			a.SetLinuxRDTSchemata([]string{"MB:0=10"})
			a.SetLinuxRDTEnableMonitoring(true)
		}, `{"config":[{"linux":{"intelRdt":{"closID":"c","enableMonitoring":true,"schemata":["MB:0=10"]},` +
			`"memoryPolicy":{"mode":"MPOL_BIND","nodes":"0","flags":["MPOL_F_STATIC_NODES"]},` +
			`"netDevices":{"eth1":{"name":"in"},` +
			`"eth2":null}}}],"ociVersion":"1.3.0"}`, ""},
		"replaced entries": {func(a *api.ContainerAdjustment) {
			for i := range 16 { // the order of a map differs
				name := strconv.Itoa(i)
				a.RemoveAnnotation(name)
				a.AddAnnotation(name, "new")
				a.RemoveLinuxNetDevice(name)
				a.AddLinuxNetDevice(name, &api.LinuxNetDevice{Name: "in"})
			}
		}, `{"config":[{"annotations":{` + sixteen(`"new"`) + `},"linux":{"netDevices":{` + sixteen(`{"name":"in"}`) +
			`}}}],"ociVersion":"1.3.0"}`, ""},
		"no RDT": {func(a *api.ContainerAdjustment) { a.RemoveLinuxRDT() },
			`{"config":[{"linux":{"intelRdt":{"closID":null,"enableMonitoring":null,"schemata":null}}}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api.ContainerAdjustment{}
			c.adjust(a)
			note, limits, err := (&Service{}).adjustment(a, nil)
			testutil.Must(t, err)
			text, err := json.Marshal(note)
			testutil.Must(t, err)
			testutil.Equal(t, string(text), c.note, "note")
			if c.limits == "" {
				testutil.Assert(t, limits == nil, "limits %v", limits)
				return
			}
			want := &runtimeapi.LinuxContainerResources{}
			testutil.Must(t, protojson.Unmarshal([]byte(c.limits), want))
			testutil.Assert(t, proto.Equal(limits, want), "limits %v, want %v", limits, want)
		})
	}
}

// sixteen has the members "0" to "15" of a JSON object, in the order of their names.
func sixteen(value string) string {
	var members []string
	for i := range 16 {
		members = append(members, `"`+strconv.Itoa(i)+`":`+value)
	}
	slices.Sort(members)
	return strings.Join(members, ",")
}

func TestUnsupportedAdjustments(t *testing.T) {
	s := &Service{opts: Options{ReadCDI: func([]string) (translate.CDIEdits, error) {
		return translate.CDIEdits{}, errors.New("no such device")
	}}}
	for field, adjust := range map[string]func(*api.ContainerAdjustment){
		"linux.resources.blockio_class": func(a *api.ContainerAdjustment) { a.SetLinuxBlockIOClass("x") },
		"linux.resources.rdt_class":     func(a *api.ContainerAdjustment) { a.SetLinuxRDTClass("x") },
		"CDI_devices": func(a *api.ContainerAdjustment) {
			a.AddCDIDevice(&api.CDIDevice{Name: "a/b=c"})
		},
	} {
		a := &api.ContainerAdjustment{}
		adjust(a)
		_, _, err := s.adjustment(a, nil)
		testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), field), "%s: %v", field, err)
	}
}

// An update of an existing container can change fewer limits.
func TestUnsupportedUpdates(t *testing.T) {
	for field, r := range map[string]*api.LinuxResources{
		"memory.kernel":             {Memory: &api.LinuxMemory{Kernel: api.Int64(int64(1))}},
		"memory.kernel_tcp":         {Memory: &api.LinuxMemory{KernelTcp: api.Int64(int64(1))}},
		"memory.swappiness":         {Memory: &api.LinuxMemory{Swappiness: api.UInt64(uint64(1))}},
		"memory.use_hierarchy":      {Memory: &api.LinuxMemory{UseHierarchy: api.Bool(true)}},
		"memory.disable_oom_killer": {Memory: &api.LinuxMemory{DisableOomKiller: api.Bool(true)}},
		"devices":                   {Devices: []*api.LinuxDeviceCgroup{{}}},
		"blockio_class":             {BlockioClass: api.String("x")},
		"rdt_class":                 {RdtClass: api.String("x")},
	} {
		_, _, err := toCRI(r)
		testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), field), "%s: %v", field, err)
	}
	limits, more, err := toCRI(&api.LinuxResources{Pids: &api.LinuxPids{Limit: 5},
		Memory: &api.LinuxMemory{Reservation: api.Int64(int64(6)), Limit: api.Int64(int64(7))}})
	testutil.Assert(t, err == nil && *more.PidsLimit == 5 && more.MemoryReservation == 6 &&
		limits.GetMemoryLimitInBytes() == 7, "%v, %v, %v", limits, more, err)
}

// FuzzAdjustment turns any adjustment into a note. The OCI runtime must be able to read each note.
func FuzzAdjustment(f *testing.F) {
	a := &api.ContainerAdjustment{}
	a.AddEnv("A", "1")
	a.AddMount(&api.Mount{Destination: "/a"})
	a.SetLinuxCPUShares(3)
	a.SetLinuxSeccompPolicy(&api.LinuxSeccomp{DefaultAction: "x"})
	a.SetLinuxScheduler(&api.LinuxScheduler{Policy: api.LinuxSchedulerPolicy_SCHED_BATCH})
	seed, err := proto.Marshal(a)
	testutil.Must(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		a := &api.ContainerAdjustment{}
		if proto.Unmarshal(encoded, a) != nil {
			t.Skip("no adjustment")
		}
		s := &Service{opts: Options{ReadCDI: func([]string) (translate.CDIEdits, error) {
			return translate.CDIEdits{}, nil
		}}}
		note, _, err := s.adjustment(a, nil)
		if err != nil || note == nil {
			return
		}
		text, err := json.Marshal(ocinote.Note{Plugins: note})
		testutil.Must(t, err)
		var read ocinote.Note
		testutil.Must(t, json.Unmarshal(text, &read))
		_, err = ocinote.EditSpec([]byte(`{"process":{"env":["A=0"]},"linux":{"seccomp":{}},"mounts":[]}`), read)
		testutil.Must(t, err)
	})
}
