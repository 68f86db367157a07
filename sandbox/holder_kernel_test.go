package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// creates returns the number of CreateContainer calls.
func (n *node) creates() int { return n.engine.Calls("CreateContainer") }

// A pod is made and ended without a call to the engine, and its namespaces are its own.
func TestPodOfTheKernel(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		config := podConfig("web")
		config.Linux.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "7"}
		id := n.runConfig(config)
		status := n.pod(id).Status
		for path, want := range map[string]string{
			"/proc/sys/net/ipv4/ip_unprivileged_port_start": "7", // the pod's, and not the engine's
			"/proc/sys/net/ipv4/ping_group_range":           "0\t2147483647",
		} {
			n.must(netns.Open(status.NetnsPath).Do(n.Context(), func() error {
				got, err := os.ReadFile(path)
				testutil.Assert(n, strings.TrimSpace(string(got)) == want, "%s is %q, want %q", path, got, want)
				return err
			}))
		}
		var shm unix.Statfs_t
		n.must(unix.Statfs(status.Namespaces.Shm, &shm))
		testutil.Assert(n, shm.Type == unix.TMPFS_MAGIC && uint64(shm.Bsize)*shm.Blocks == 64<<20,
			"/dev/shm is %+v", shm)
		n.must(n.Stop(n.Context(), id))
		n.wantState(id, notReady)
		n.removeLast(id)
		if n.creates() != 0 {
			n.Errorf("the engine made %d containers", n.creates())
		}
	})
}

// A pod gets a sandbox container if the kernel cannot or must not hold its namespaces.
func TestPodThatNeedsASandboxContainerHasOne(t *testing.T) {
	onNodes(t, withKernel, map[string]func(*node, *runtimeapi.PodSandboxConfig){
		"shares its PID namespace": func(_ *node, c *runtimeapi.PodSandboxConfig) {
			c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
		},
		"no criadapter-oci": func(n *node, _ *runtimeapi.PodSandboxConfig) { n.engine.runtime = false },
		"WithoutContainers is false": func(n *node, _ *runtimeapi.PodSandboxConfig) {
			n.opts.WithoutContainers = false
		},
		"a missing slice": func(n *node, c *runtimeapi.PodSandboxConfig) {
			n.engine.driver = systemdDriver
			n.opts.Cgroups = parents{n.TempDir()}
			c.Linux.CgroupParent = "/kubepods.slice/kubepods-pod1.slice"
		},
	}, func(n *node, change func(*node, *runtimeapi.PodSandboxConfig)) {
		config := podConfig("web")
		change(n, config)
		id := n.runConfig(config)
		if n.creates() != 1 || n.pod(id).Status.Namespaces != nil {
			n.Errorf("the engine made %d containers", n.creates())
		}
		n.removeLast(id)
	})
}

// A pod without a sandbox container survives restarts, even if new pods get sandbox containers again.
func TestPodOfTheKernelOutlivesTheProgram(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		id := n.run("web")
		n.restart()
		n.must(n.Recover(n.Context()))
		n.wantState(id, ready)
		n.mode = withCNI
		n.restart()
		n.must(n.Recover(n.Context()))
		n.wantState(id, ready)
		other := n.run("other")
		if n.creates() != 1 {
			n.Errorf("the engine made %d containers, want the other pod's", n.creates())
		}
		for _, id := range []string{id, other} {
			n.must(n.Stop(n.Context(), id))
			n.must(n.Remove(n.Context(), id))
		}
		n.wantNothing()
	})
}

// rebootKernel removes what a reboot removes: the pod's pins and its directory.
func (n *node) rebootKernel(id string) {
	n.Helper()
	record, err := n.store.Load(n.Context(), id)
	n.must(err)
	n.must(netns.Open(record.NetnsPath).Unpin())
	n.must(n.kernel.remove(n.Context(), id))
}

// After a reboot, or when one of its namespaces was unpinned, a pod is not ready, and gives its address back.
func TestPodOfTheKernelIsNotReadyAfterAReboot(t *testing.T) {
	onNodes(t, withKernel, map[string]func(*node, string){
		"reboot": (*node).rebootKernel,
		"IPC unpinned": func(n *node, id string) {
			n.must(unix.Unmount(n.pod(id).Status.Namespaces.IPC, unix.MNT_DETACH))
		},
		"net unpinned": func(n *node, id string) { n.must(netns.Open(n.pod(id).Status.NetnsPath).Unpin()) },
	}, func(n *node, lose func(*node, string)) {
		id := n.run("web")
		lose(n, id)
		n.restart()
		n.must(n.Recover(n.Context()))
		n.wantState(id, notReady)
		testutil.Assert(n, len(n.network.joined) == 1, "joined are %v", n.network.joined)
		n.stopAndRemoveLast(id)
	})
}

// A pod whose record is lost is found by its namespaces, or after a reboot by its containers.
func TestPodOfTheKernelWhoseRecordIsLost(t *testing.T) {
	onNodes(t, withKernel, map[string]func(*node, string){
		"the record":              func(*node, string) {},
		"the record and a reboot": (*node).rebootKernel,
	}, func(n *node, lose func(*node, string)) {
		id := n.run("web")
		c := n.addContainer(id, "web", "app")
		lose(n, id)
		n.must(n.store.Delete(n.Context(), id))
		n.restart()
		n.must(n.Recover(n.Context()))
		n.wantState(id, notReady)
		metadata := n.pod(id).Meta.Config.GetMetadata()
		testutil.Assert(n, metadata.GetName() == "web" && metadata.GetUid() == "uid-web" &&
			metadata.GetNamespace() == "default", "the pod is %v", metadata)
		n.must(n.collectOrphans(n.Context()))
		n.wantRunning(c, true)
		n.must(n.Stop(n.Context(), id))
		n.wantUnjoined()
		n.wantRunning(c, false)
		n.removeLast(id)
	})
}

// Namespaces that a crash left without a record are removed. Another criadapter's namespaces stay.
func TestNamespacesWithoutAPodAreSwept(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		mine, theirs := n.run("mine"), n.run("theirs")
		for _, id := range []string{mine, theirs} {
			n.must(n.store.Delete(n.Context(), id))
			n.cache.RemovePod(id)
		}
		n.must(n.files.remove(theirs))
		found, err := readOwner(n.kernel.dirOf(theirs))
		n.must(err)
		found.RootDirectory = "/another"
		n.must(writeOwner(n.kernel.dirOf(theirs), found))
		n.network.joined = nil // neither plugin nor cache knows them
		n.must(n.collectOrphans(n.Context()))
		entries, err := os.ReadDir(n.podsDir())
		testutil.Assert(n, err == nil && len(entries) == 1 && entries[0].Name() == theirs,
			"left are %v, %v", entries, err)
		testutil.Assert(n, !netns.Open(n.netnsPath(mine)).Alive() && netns.Open(n.netnsPath(theirs)).Alive(),
			"the wrong network namespace was unpinned")
		n.must(n.Remove(n.Context(), theirs))
		testutil.Assert(n, netns.Open(n.netnsPath(theirs)).Alive(), "another criadapter's pod was removed")
		n.must(netns.Open(n.netnsPath(theirs)).Unpin())
		n.must(n.kernel.remove(n.Context(), theirs))
	})
}

// A set-up that fails at any step leaves nothing.
func TestPodOfTheKernelThatFailsLeavesNothing(t *testing.T) {
	type test struct {
		breakIt func(*node, *runtimeapi.PodSandboxConfig)
		is      func(error) bool
		want    string
	}
	onNodes(t, withKernel, map[string]test{
		"a sysctl that the kernel refuses": {func(_ *node, c *runtimeapi.PodSandboxConfig) {
			c.Linux.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "many"}
		}, errdefs.IsInvalidArgument, "config.linux.sysctls"},
		"CNI ADD": {func(n *node, _ *runtimeapi.PodSandboxConfig) { n.network.failAdd(errTest) }, nil, errTest.Error()},
		"no place for the namespaces": {func(n *node, _ *runtimeapi.PodSandboxConfig) {
			n.must(os.WriteFile(n.podsDir(), nil, 0o600))
		}, nil, "preparing"},
		"no place for the record": {func(n *node, _ *runtimeapi.PodSandboxConfig) { n.fillStore() }, nil, "space"},
	}, func(n *node, tt test) {
		config := podConfig("web")
		tt.breakIt(n, config)
		_, err := n.Run(n.Context(), config, "")
		testutil.Assert(n, err != nil && strings.Contains(err.Error(), tt.want) && (tt.is == nil || tt.is(err)),
			"Run returned %v, want %s", err, tt.want)
		_ = os.Remove(filepath.Join(n.storeDir(), ".tmp-filler"))
		if info, err := os.Lstat(n.podsDir()); err == nil && info.Mode().IsRegular() {
			n.must(os.Remove(n.podsDir()))
		}
		n.wantNothing()
	})
}

// The kernel enforces the pod's limits before the first container, in a cgroup that criadapter makes.
func TestCgroupIsMadeForAPodOfTheKernel(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		dir := n.TempDir()
		n.opts.Cgroups = parents{dir}
		config := podConfig("web")
		config.Linux.CgroupParent = "/kubepods/pod1"
		id := n.runConfig(config)
		var made []string
		for _, d := range n.opts.Cgroups.ParentDirs("cgroupfs", "/kubepods/pod1") {
			if _, err := os.Stat(d); err == nil {
				made = append(made, d)
			}
		}
		record, err := n.store.Load(n.Context(), id)
		testutil.Assert(n, err == nil && len(made) != 0 && record.Cgroup != nil,
			"made are %v, the record says %+v (%v)", made, record.Cgroup, err)
		n.must(n.Remove(n.Context(), id))
		for _, d := range made {
			_, err := os.Stat(d)
			testutil.Assert(n, os.IsNotExist(err), "%s is left (%v)", d, err)
		}
		n.must(cgroup.Make(dir)) // it is there
		n.wantNothing()
	})
}

// Alive is false for a pod with a sandbox container.
func TestAliveIsOfTheKernelAlone(t *testing.T) {
	alive, err := Alive(checkpoint.Record{NetnsPath: "/proc/self/ns/net"})
	testutil.Assert(t, !alive && err == nil, "a pod with a sandbox container is alive without it: %v, %v", alive, err)
}

// Unfinished directories of this criadapter are removed, with and without an owner file. Another criadapter's
// directories stay.
func TestUnfinishedDirectoriesAreSwept(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		living := n.run("living")
		theirs := filepath.Join(n.podsDir(), unfinished("/another")+"1")
		for _, dir := range []string{filepath.Join(n.podsDir(), unfinished(n.dir)+"2"), theirs} {
			n.must(os.Mkdir(dir, 0o700))
		}
		owned := filepath.Join(n.podsDir(), unfinished(n.dir)+"3")
		n.must(os.Mkdir(owned, 0o700))
		n.must(writeOwner(owned, owner{RootDirectory: n.dir}))
		n.must(n.collectOrphans(n.Context()))
		left, err := os.ReadDir(n.podsDir()) // sorted, the dot first
		testutil.Assert(n, err == nil && len(left) == 2 && left[0].Name() == filepath.Base(theirs) &&
			left[1].Name() == living, "left are %v, %v", left, err)
		n.must(os.Remove(theirs))
		n.removeLast(living)
	})
}

// withoutFiles calls do while this program can open no file.
func (n *node) withoutFiles(do func()) {
	n.Helper()
	var limit unix.Rlimit
	n.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	n.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	defer func() { n.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	do()
}

// Pods stay READY while the program has too many files open to look at their namespaces. A pod that was marked as ended
// is READY again once its namespaces are found again.
func TestPodOfTheKernelThatCannotBeSeenGoesOn(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		web, other := n.run("web"), n.run("other")
		relist := func() {
			time.Sleep(6 * time.Minute)
			synctest.Wait()
		}
		n.withoutFiles(relist)
		n.wantState(web, ready)
		n.wantState(other, ready)
		owner := filepath.Join(n.kernel.dirOf(web), ownerFile)
		n.must(os.Rename(owner, owner+".away"))
		relist()
		n.wantState(web, notReady)
		n.withoutFiles(relist)
		n.wantState(web, notReady)
		n.must(os.Rename(owner+".away", owner))
		relist()
		n.wantState(web, ready)
		n.wantState(other, ready)
		for _, id := range []string{web, other} {
			n.must(n.Remove(n.Context(), id))
		}
		n.wantNothing()
	})
}

// A pod whose /dev/shm was unmounted is not ready. Its removal deletes the files that were written into its directory
// since, but no file of a mount there.
func TestPodOfTheKernelWhoseShmIsUnmounted(t *testing.T) {
	onNodes(t, withKernel, map[string]func(n *node, dir, shm string){
		"unmounted":     func(*node, string, string) {},
		"mounted twice": func(n *node, _, shm string) { n.must(unix.Mount("shm", shm, "tmpfs", 0, "")) },
		"files in its place": func(n *node, _, shm string) {
			testutil.WriteFile(n, filepath.Join(shm, "a/b/c"), "")
			n.must(os.Symlink("/etc", filepath.Join(shm, "link")))
		},
		"files beside it": func(n *node, dir, _ string) { n.must(os.WriteFile(filepath.Join(dir, "new"), nil, 0o600)) },
		"a mount in it": func(n *node, _, shm string) {
			n.must(os.MkdirAll(filepath.Join(shm, "a"), 0o700))
			n.must(unix.Mount(filepath.Join(n.dir, "precious"), filepath.Join(shm, "a"), "", unix.MS_BIND, ""))
		},
		"a mount in its place": func(n *node, _, shm string) {
			n.must(unix.Mount(filepath.Join(n.dir, "precious"), shm, "", unix.MS_BIND, ""))
		},
	}, func(n *node, mess func(n *node, dir, shm string)) {
		precious := filepath.Join(n.dir, "precious", "file")
		testutil.WriteFile(n, precious, "")
		id := n.run("web")
		ns := n.pod(id).Status.Namespaces
		n.must(unix.Unmount(ns.Shm, unix.MNT_DETACH))
		alive, err := Alive(
			checkpoint.Record{NetnsPath: n.pod(id).Status.NetnsPath, Namespaces: ns})
		testutil.Assert(n, !alive && err == nil, "without its /dev/shm the pod is alive: %v, %v", alive, err)
		mess(n, ns.Dir, ns.Shm)
		n.must(n.Stop(n.Context(), id))
		n.wantState(id, notReady)
		n.removeLast(id)
		_, err = os.Stat(precious)
		testutil.Check(n, err, "a file of another file system is gone")
	})
}
