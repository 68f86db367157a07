package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const mebibyte = 1 << 20

// Each value is within 5 per cent of the container's real use: 200 MiB of memory, four seconds of CPU, 50 MiB on disk,
// a file in the page cache, 10 MiB over the network.
func TestStatsAreTrue(t *testing.T) {
	rigenv.RequireControllers(t, "memory")
	w := newWorker(t)

	before := w.stats()
	w.do("(head -c 209715200 /dev/zero; exec sleep 3600) | dd bs=200M iflag=fullblock of=/dev/null 2>/dev/null &")
	w.until(func(now *runtimeapi.ContainerStats) error {
		return errors.Join(
			grown("rss", now.Memory.RssBytes, before.Memory.RssBytes, 200*mebibyte),
			grown("usage", now.Memory.UsageBytes, before.Memory.UsageBytes, 200*mebibyte),
			grown("working set", now.Memory.WorkingSetBytes, before.Memory.WorkingSetBytes, 200*mebibyte),
		)
	})

	// The kernel checks the CPU limit only at ticks, so the loop ends after about four seconds. time(1) measures its
	// exact time. The programs around the loop use CPU time, too, which a run without the loop measures.
	around, none := w.timed("true")
	used, spent := w.timed("while :; do :; done")
	testutil.Require(t, spent >= uint64(time.Second), "the CPU was hardly used: for %d ns", spent)
	testutil.Must(t, grown("CPU time", &runtimeapi.UInt64Value{Value: used}, nil, spent+around-none))

	before = w.stats()
	w.do("dd if=/dev/zero of=/written bs=1M count=50 conv=fsync 2>/dev/null")
	w.until(func(now *runtimeapi.ContainerStats) error {
		return grown("writable layer", now.GetWritableLayer().GetUsedBytes(), before.GetWritableLayer().GetUsedBytes(),
			50*mebibyte)
	})

	w.coldFile("big", 300*mebibyte)
	before = w.stats()
	// Not cat, because it uses sendfile in small pieces. The kernel would count its pages as read twice, and so as part
	// of the working set.
	w.do("dd if=/shared/big of=/dev/null bs=1M 2>/dev/null")
	now := w.stats()
	testutil.Must(t, grown("usage with page cache", now.Memory.UsageBytes, before.Memory.UsageBytes, 300*mebibyte))
	grew := int64(now.Memory.WorkingSetBytes.Value) - int64(before.Memory.WorkingSetBytes.Value)
	testutil.Assert(t, grew <= 15*mebibyte, "a file in the page cache made the working set %d bytes larger", grew)

	sentBefore := w.podStats().GetLinux().GetNetwork().GetDefaultInterface().GetTxBytes()
	const payload = 10 * mebibyte
	w.send(payload)
	sentAfter := w.podStats().GetLinux().GetNetwork().GetDefaultInterface().GetTxBytes()
	// An interface counts frames, with 66 bytes of Ethernet, IP and TCP for each 1448 bytes of payload.
	testutil.Must(t, grown("sent bytes", sentAfter, sentBefore, payload*(1448+66)/1448))
}

// A change of load shows in the next call, and the rate agrees with the counters.
func TestStatsFollowTheLoad(t *testing.T) {
	w := newWorker(t)
	idle := w.stats().Cpu.UsageNanoCores
	testutil.Assert(t, idle != nil, "the first call has no nano cores")
	w.do("sh -c 'ulimit -t 20; while :; do :; done' &")
	time.Sleep(time.Second) // the rate is measured over at least half a second, which must be under load
	first := w.stats()
	time.Sleep(time.Second)
	second := w.stats()
	age := time.Since(time.Unix(0, second.Cpu.Timestamp))
	testutil.Assert(t, age <= 10*time.Second, "the answer is %v old", age)
	elapsed := float64(second.Cpu.Timestamp-first.Cpu.Timestamp) / float64(time.Second)
	used := float64(second.Cpu.UsageCoreNanoSeconds.Value-first.Cpu.UsageCoreNanoSeconds.Value) / elapsed
	rate := float64(second.Cpu.UsageNanoCores.GetValue())
	testutil.Assert(t, used >= 1e7 && rate >= 0.95*used && rate <= 1.05*used,
		"%.0f nano cores, while %.0f were used", rate, used)
}

// The stats of a pod with its own cgroup are read from that cgroup.
func TestStatsOfAPodsOwnCgroup(t *testing.T) {
	rigenv.RequireControllers(t, "memory", "pids")
	w := newWorkerBesideASandbox(t)
	pod := w.podStats()
	container := w.stats()
	linux := pod.GetLinux()
	if len(linux.GetContainers()) != 1 || linux.GetContainers()[0].GetAttributes().GetId() != w.container {
		t.Fatalf("containers: %v", linux.GetContainers())
	}
	all, one := linux.GetMemory().GetRssBytes().GetValue(), container.GetMemory().GetRssBytes().GetValue()
	testutil.Assert(t, all > one, "the pod's rss %d is not more than its container's %d: the sandbox is missing", all,
		one)
	got := linux.GetProcess().GetProcessCount().GetValue()
	testutil.Assert(t, got >= 2, "%d processes", got)
	same(t, "default interface", linux.GetNetwork().GetDefaultInterface().GetName(), "eth0")
}

// Lists leave out ended containers. By id, an ended container has zeros, and an unknown one is NotFound.
func TestStatsOfWhatIsGone(t *testing.T) {
	w := newWorker(t)
	runtime := w.server.Runtime
	testutil.Must(t, runtime.StopContainer(t.Context(), w.container, 0))
	list, err := runtime.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{Id: w.container})
	testutil.Assert(t, err == nil && len(list) == 0, "the list has an ended container: %v, %v", list, err)
	ended := w.stats()
	testutil.Assert(t, ended.Cpu.Timestamp != 0 && ended.Cpu.UsageCoreNanoSeconds.GetValue() == 0 &&
		ended.Memory.UsageBytes.GetValue() == 0,
		"an ended container uses %v, %v", ended.Cpu, ended.Memory)
	testutil.Must(t, runtime.StopPodSandbox(t.Context(), w.pod))
	pods, err := runtime.ListPodSandboxStats(t.Context(), &runtimeapi.PodSandboxStatsFilter{Id: w.pod})
	testutil.Assert(t, err == nil && len(pods) == 0, "the list has an ended pod: %v, %v", pods, err)
	metrics, err := runtime.ListPodSandboxMetrics(t.Context())
	testutil.Assert(t, err == nil && len(metrics) == 0, "metrics of an ended pod: %v, %v", metrics, err)
	_, err = runtime.ContainerStats(t.Context(), strings.Repeat("0", 64))
	testutil.Assert(t, isNotFound(err), "stats of an unknown container: %v", err)
	_, err = runtime.PodSandboxStats(t.Context(), strings.Repeat("0", 64))
	testutil.Assert(t, isNotFound(err), "stats of an unknown pod: %v", err)
}

// A container runs on when its processes are moved out of its cgroup and the cgroup is removed. Its usage is then
// unknown, not zero.
func TestStatsOfARunningContainerWithoutItsCgroup(t *testing.T) {
	rigenv.RequireControllers(t, "memory")
	w := newWorkerBesideASandbox(t)
	testutil.Require(t, w.stats().Cpu != nil && w.stats().Memory != nil, "no stats before")
	w.leaveCgroup()
	w.do("true")
	got := w.stats()
	if got.GetAttributes().GetId() != w.container || got.Cpu != nil || got.Memory != nil || got.Swap != nil ||
		got.Io != nil {
		t.Errorf("unknown, but %v", got)
	}
	list, err := w.server.Runtime.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{Id: w.container})
	testutil.Assert(t, err == nil && len(list) == 0, "listed: %v, %v", list, err)
	pod := w.podStats().GetLinux()
	testutil.Assert(t, len(pod.GetContainers()) == 0 && pod.GetCpu() != nil, "the pod: %v", pod)
}

// With the storage driver vfs (native in containerd), a container's layer is a copy of its image. The server counts no
// such layer, because the count would include the image. The log says so once.
func TestStatsOfAnEngineThatCopiesLayers(t *testing.T) {
	rigenv.RequireControllers(t, "memory")
	env := rigenv.Require(t)
	own := engine.ForTest(t, engine.Options{Env: env, Config: map[string]any{"storage-driver": engine.CopyDriver(env)}})
	w := newWorkerWith(t, adapter.Options{Env: own.Use(env)})
	w.do("dd if=/dev/zero of=/written bs=1M count=5 2>/dev/null")
	testutil.Eventually(t, func() error {
		layer := w.stats().WritableLayer
		testutil.Require(t, layer == nil, "got %v", layer)
		said := testutil.ReadFile(t, w.server.LogPath)
		if strings.Count(said, "writable layers are not counted") != 1 {
			return fmt.Errorf("the log does not say so once: %s", said)
		}
		return nil
	})
	testutil.Assert(t, w.stats().GetMemory().GetWorkingSetBytes() != nil, "the other stats are missing, too")
}

// Stats make no engine call.
func TestStatsAskTheEngineNothing(t *testing.T) {
	env := rigenv.Require(t)
	counter := countCalls(t, env)
	w := newWorkerWith(t, adapter.Options{Env: env, Flags: []string{"--docker-endpoint=unix://" + counter.path}})
	testutil.Require(t, len(counter.taken()) > 0, "the server does not use the counting proxy")
	counter.awaitSilence(t)
	runtime := w.server.Runtime
	for range 3 {
		_, err1 := runtime.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{})
		_, err2 := runtime.ListPodSandboxStats(t.Context(), &runtimeapi.PodSandboxStatsFilter{})
		_, err3 := runtime.ListPodSandboxMetrics(t.Context())
		testutil.Must(t, errors.Join(err1, err2, err3))
		w.stats()
		w.podStats()
	}
	calls := counter.taken()
	testutil.Assert(t, len(calls) == 0, "the engine was asked: %v", calls)
}

// Every metric has a descriptor, and as many label values as the descriptor has keys.
func TestMetricsAreAsDescribed(t *testing.T) {
	rigenv.RequireControllers(t, "memory", "pids")
	w := newWorker(t)
	descriptors, err := w.server.Runtime.ListMetricDescriptors(t.Context())
	testutil.Must(t, err)
	keys := map[string][]string{}
	for _, descriptor := range descriptors {
		keys[descriptor.Name] = descriptor.LabelKeys
	}
	w.stats() // makes the server count the writable layer
	var seen map[string]bool
	testutil.Eventually(t, func() error {
		pods, err := w.server.Runtime.ListPodSandboxMetrics(t.Context())
		if err != nil || len(pods) != 1 || len(pods[0].ContainerMetrics) != 1 {
			return fmt.Errorf("metrics: %v, %v", pods, err)
		}
		seen = map[string]bool{}
		for _, metric := range slices.Concat(pods[0].Metrics, pods[0].ContainerMetrics[0].Metrics) {
			seen[metric.Name] = true
			testutil.Require(t, len(metric.LabelValues) == len(keys[metric.Name]),
				"%s has labels %v with values %v", metric.Name, keys[metric.Name], metric.LabelValues)
			at := slices.Index(keys[metric.Name], "pod")
			testutil.Require(t, metric.LabelValues[at] == w.name,
				"%s is of pod %q", metric.Name, metric.LabelValues[at])
		}
		if !seen["container_fs_usage_bytes"] {
			return fmt.Errorf("no container_fs_usage_bytes")
		}
		return nil
	})
	for _, name := range []string{
		"container_cpu_usage_seconds_total", "container_memory_working_set_bytes",
		"container_network_transmit_bytes_total",
		"container_processes", "container_start_time_seconds", "container_last_seen",
		"container_spec_memory_limit_bytes",
		"container_file_descriptors", "container_oom_events_total", "container_threads_max",
		"container_tasks_state", "container_memory_active_anon_bytes", "container_memory_inactive_anon_bytes",
		"container_memory_anon_thp_bytes", "container_spec_memory_reservation_limit_bytes",
	} {
		testutil.Assert(t, seen[name], "no %s", name)
	}
}

// worker is a container that takes orders through a pipe, because an exec would count in the stats.
type worker struct {
	t                    *testing.T
	server               *adapter.Server
	pod, container, name string
	// parent is the pod's own cgroup, and config its configuration.
	parent string
	config *runtimeapi.PodSandboxConfig
	// shared is a directory that the container has as /shared.
	shared          string
	orders, replies *os.File
}

func newWorker(t *testing.T) *worker {
	t.Helper()
	return newWorkerWith(t, adapter.Options{Env: rigenv.Require(t)})
}

// newWorkerBesideASandbox makes a worker in a pod with a sandbox container. They share a PID namespace, so the
// sandbox's process counts.
func newWorkerBesideASandbox(t *testing.T) *worker {
	t.Helper()
	return newWorkerIn(t, adapter.Options{Env: rigenv.Require(t)}, &runtimeapi.NamespaceOption{})
}

func newWorkerWith(t *testing.T, opts adapter.Options) *worker {
	t.Helper()
	return newWorkerIn(t, opts, nil)
}

// newWorkerIn makes a worker in a pod with these namespaces.
func newWorkerIn(t *testing.T, opts adapter.Options, namespaces *runtimeapi.NamespaceOption) *worker {
	t.Helper()
	server := adapter.ForTest(t, opts)
	w := &worker{t: t, server: server, name: rigenv.Unique(t.Name()), shared: filepath.Join(server.Dir, "shared")}
	testutil.Must(t, os.Mkdir(w.shared, 0o777))
	w.orders, w.replies = fifo(t, filepath.Join(w.shared, "orders")), fifo(t, filepath.Join(w.shared, "replies"))
	image := opts.Env.Image("test/busybox:latest")
	pull(t, server, image)

	w.parent = filepath.Join("/", opts.Env.Cgroup(), filepath.Base(server.Dir))
	t.Cleanup(func() { _ = cgroups.Remove(w.parent) })
	w.config = &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: w.name, Namespace: "e2e", Uid: w.name + "-uid"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    w.parent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces},
		},
	}
	w.pod = runSandbox(t, server, w.config)
	w.container = runContainer(t, server, w.pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "worker"},
		Image:    &runtimeapi.ImageSpec{Image: image},
		Command: []string{"sh", "-c",
			`exec 3<>/shared/orders; while read -r order <&3; do eval "$order"; echo done >/shared/replies; done`},
		Mounts: []*runtimeapi.Mount{{HostPath: w.shared, ContainerPath: "/shared"}},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 30}},
	}, w.config)
	w.do("true")
	return w
}

// fifo makes a named pipe that never blocks its opener.
func fifo(t *testing.T, path string) *os.File {
	t.Helper()
	testutil.Must(t, unix.Mkfifo(path, 0o666))
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	testutil.Must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

// leaveCgroup moves the container's processes out of its cgroups and removes the cgroups.
func (w *worker) leaveCgroup() {
	w.t.Helper()
	below := filepath.Join(w.parent, w.container)
	places, err := filepath.Glob("/sys/fs/cgroup/*" + below)
	testutil.Must(w.t, err)
	if _, err := os.Stat("/sys/fs/cgroup" + below); err == nil {
		places = append(places, "/sys/fs/cgroup"+below)
	}
	testutil.Require(w.t, len(places) != 0, "no cgroup %s", below)
	for _, place := range places {
		pids := testutil.ReadFile(w.t, filepath.Join(place, "cgroup.procs"))
		for pid := range strings.FieldsSeq(pids) {
			testutil.Must(w.t, os.WriteFile(strings.TrimSuffix(place, below)+"/cgroup.procs", []byte(pid), 0))
		}
		testutil.Eventually(w.t, func() error { return unix.Rmdir(place) })
	}
}

// do has the container run a line of shell and waits for its end.
func (w *worker) do(order string) {
	w.t.Helper()
	_, err := fmt.Fprintln(w.orders, order)
	testutil.Must(w.t, err)
	testutil.Must(w.t, w.replies.SetReadDeadline(time.Now().Add(testutil.Patience)))
	_, err = bufio.NewReader(w.replies).ReadString('\n')
	testutil.Require(w.t, err == nil, "%s: %v", order, err)
}

// timed has the container run a line of shell for at most four seconds of CPU time. It returns the CPU time that the
// container used according to its stats, and the part of the line itself according to time(1), in nanoseconds.
func (w *worker) timed(order string) (used, spent uint64) {
	w.t.Helper()
	before := w.stats().Cpu.UsageCoreNanoSeconds.Value
	w.do("time -f '%U %S' -o /shared/spent sh -c 'ulimit -t 4; " + order + "' 2>/dev/null")
	used = w.stats().Cpu.UsageCoreNanoSeconds.Value - before
	text := testutil.ReadFile(w.t, filepath.Join(w.shared, "spent"))
	lines := strings.Split(strings.TrimSpace(text), "\n") // the first lines are about the signal
	var user, system float64
	_, err := fmt.Sscan(lines[len(lines)-1], &user, &system)
	testutil.Must(w.t, err)
	return used, uint64((user + system) * float64(time.Second))
}

func (w *worker) stats() *runtimeapi.ContainerStats {
	w.t.Helper()
	stats, err := w.server.Runtime.ContainerStats(w.t.Context(), w.container)
	testutil.Must(w.t, err)
	return stats
}

func (w *worker) podStats() *runtimeapi.PodSandboxStats {
	w.t.Helper()
	stats, err := w.server.Runtime.PodSandboxStats(w.t.Context(), w.pod)
	testutil.Must(w.t, err)
	return stats
}

// until repeats the request until the stats are right. The server counts writable layers only every ten seconds.
func (w *worker) until(right func(*runtimeapi.ContainerStats) error) {
	w.t.Helper()
	testutil.Eventually(w.t, func() error { return right(w.stats()) })
}

// coldFile makes a file in the shared directory that is not in the page cache.
func (w *worker) coldFile(name string, size int64) {
	w.t.Helper()
	file, err := os.Create(filepath.Join(w.shared, name))
	testutil.Must(w.t, err)
	defer file.Close()
	_, err = io.CopyN(file, zeros{}, size)
	testutil.Must(w.t, errors.Join(err, file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// send has the container send bytes to this process.
func (w *worker) send(size int64) {
	w.t.Helper()
	address, _, _ := strings.Cut(w.server.Subnet, ".0/")
	listener, err := net.Listen("tcp4", address+".1:0")
	testutil.Must(w.t, err)
	defer listener.Close()
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- -1
			return
		}
		defer conn.Close()
		n, _ := io.Copy(io.Discard, conn)
		received <- n
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	w.do(fmt.Sprintf("head -c %d /dev/zero | nc %s.1 %d", size, address, port))
	listener.Close()
	n := <-received
	testutil.Require(w.t, n == size, "received %d bytes, want %d", n, size)
}

// grown fails unless a value grew by want, within 5 per cent.
func grown(what string, now, before *runtimeapi.UInt64Value, want uint64) error {
	grew := float64(now.GetValue()) - float64(before.GetValue())
	if ratio := grew / float64(want); ratio < 0.95 || ratio > 1.05 {
		return fmt.Errorf("%s grew by %.0f, want %d", what, grew, want)
	}
	return nil
}
