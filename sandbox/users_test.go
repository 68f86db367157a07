package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// mappedConfig is a pod with a user namespace of its own.
func mappedConfig(name string, pid runtimeapi.NamespaceMode) *runtimeapi.PodSandboxConfig {
	config := podConfig(name)
	options := config.Linux.SecurityContext.NamespaceOptions
	options.Pid = pid
	options.UsernsOptions = &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_POD,
		Uids: []*runtimeapi.IDMapping{{HostId: 300000, Length: 1000}},
		Gids: []*runtimeapi.IDMapping{{HostId: 400000, Length: 1000}},
	}
	return config
}

// onEachMapped is onNode for a pod with a user namespace of its own: once held by the kernel, once by a sandbox
// container.
func onEachMapped(t *testing.T, test func(*node, *runtimeapi.PodSandboxConfig)) {
	t.Helper()
	onNodes(t, withKernel, map[string]runtimeapi.NamespaceMode{"kernel": runtimeapi.NamespaceMode_CONTAINER,
		"container": runtimeapi.NamespaceMode_POD},
		func(n *node, pid runtimeapi.NamespaceMode) { test(n, mappedConfig("web", pid)) })
}

func (n *node) usersAlive(path string) bool { alive, _ := netns.Set{User: path}.Alive(); return alive }

func TestPodWithUsersOfItsOwn(t *testing.T) {
	onEachMapped(t, func(n *node, config *runtimeapi.PodSandboxConfig) {
		id := n.runConfig(config)
		path := n.pod(id).Status.UserNamespace
		testutil.Require(n, n.usersAlive(path), "%q is not a user namespace", path)
		if shm := n.pod(id).Status.Namespaces; shm != nil {
			var stat unix.Stat_t
			n.must(unix.Stat(shm.Shm, &stat))
			testutil.Assert(n, stat.Uid == 300000 && stat.Gid == 400000, "/dev/shm is of %d:%d", stat.Uid, stat.Gid)
		}
		n.restart()
		n.must(n.Recover(n.Context()))
		n.wantState(id, ready)
		again := n.pod(id).Status.UserNamespace
		testutil.Assert(n, again == path && n.usersAlive(path), "after a restart it is %q", again)
		n.must(n.Stop(n.Context(), id))
		n.wantState(id, notReady)
		n.must(n.Remove(n.Context(), id))
		_, err := os.Lstat(path)
		testutil.Assert(n, err != nil, "%s is left", path)
		n.wantNothing()
	})
}

// A failed set-up leaves no user namespace, even if a crash had left a file at the path of its pin.
func TestPodWithUsersThatFailsLeavesNothing(t *testing.T) {
	onEachMapped(t, func(n *node, config *runtimeapi.PodSandboxConfig) {
		left := n.users.path(sandboxName("web"))
		n.must(netns.ShareDir(filepath.Dir(left)))
		n.must(os.WriteFile(left, nil, 0o444))
		n.network.onAdd = func(context.Context, cni.Pod) error { return errTest }
		_, err := n.Run(n.Context(), config, "")
		testutil.Require(n, errors.Is(err, errTest), "got %v", err)
		pins, err := filepath.Glob(filepath.Join(n.dir, "users", "*"))
		n.must(err)
		for _, pin := range pins {
			testutil.Assert(n, !n.usersAlive(pin), "%s is left", pin)
		}
		n.must(os.RemoveAll(left))
		n.wantNothing()
	})
}

// A pod of the same name that the cache does not know yet keeps its user namespace.
func TestUsersOfAPodThatIsThereStay(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		config := mappedConfig("web", runtimeapi.NamespaceMode_POD)
		id := n.runConfig(config)
		path := n.pod(id).Status.UserNamespace
		before, err := os.Stat(path)
		n.must(err)
		n.cache.RemovePod(id)
		_, err = n.Run(n.Context(), config, "")
		testutil.Fails(n, err, errdefs.IsAlreadyExists, "a second pod")
		after, err := os.Stat(path)
		testutil.Assert(n, err == nil && os.SameFile(before, after), "the user namespace was replaced: %v", err)
		n.restart()
		n.removeLast(id)
	})
}

// Pins that a crash left without a pod are removed. The pins of pods and of another criadapter stay.
func TestUserNamespacesWithoutAPodAreSwept(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		id := n.runConfig(mappedConfig("web", runtimeapi.NamespaceMode_POD))
		left, theirs := n.users.path("left"), filepath.Join(n.usersDir(), "another-pod")
		for _, path := range []string{left, theirs} {
			set := netns.Set{User: path}
			setUsers(&set, translate.PodUsers(mappedConfig("left", runtimeapi.NamespaceMode_POD)))
			n.must(set.Make(n.Context()))
		}
		n.must(n.store.Save(n.Context(), checkpoint.Record{SandboxID: "hidden", UserNamespace: left}))
		n.must(n.sweepUsers(n.Context()))
		testutil.Assert(n, n.usersAlive(left), "the user namespace of a pod that the cache does not show is gone")
		n.must(n.store.Delete(n.Context(), "hidden"))
		n.must(n.collectOrphans(n.Context()))
		testutil.Assert(n, !n.usersAlive(left) && n.usersAlive(theirs) && n.usersAlive(n.pod(id).Status.UserNamespace),
			"the wrong namespaces are left")
		n.must(netns.Set{User: theirs}.Unpin())
		n.removeLast(id)
	})
}

// Without criadapter-oci, userns_options is refused.
func TestUsersWithoutTheRuntime(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		_, err := n.Run(n.Context(), mappedConfig("web", runtimeapi.NamespaceMode_CONTAINER), "")
		testutil.Assert(n, err != nil &&
			strings.Contains(err.Error(), "namespace_options.userns_options: a user namespace of the pod's own needs"),
			"got %v", err)
		n.wantNothing()
	})
}
