package kubelet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// refused starts a second kubelet core on the node's runtime. That core must end by itself with an error that contains
// want.
func (n *node) refused(want string, flags ...string) {
	n.t.Helper()
	args := append([]string{
		"run", "--manifests", n.manifests, "--container-runtime-endpoint", n.server.Endpoint(), "--hostname-override",
		n.name,
		"--node-ip", n.ip, "--pod-logs-dir", n.logs, "--cgroup-root", n.cgroup(),
	}, flags...)
	_, stderr, code := n.person("", args...)
	testutil.Assert(n.t, code == 1 && strings.Contains(stderr, want),
		"%v: exit code %d, want 1 and %q:\n%s", flags, code, want, stderr)
}

// TestTwoCoresOfOneDirectory refuses a second core on one directory, and a core for the pods of another owner. Either
// core could remove the first core's volumes as leftovers. The first core's pod and volume stay. After a crash, nothing
// has to be unlocked.
func TestTwoCoresOfOneDirectory(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "echo kept > /data/file; sleep 1000"], volumeMounts: [{name: data, mountPath: /data}]}
`)
	pod := n.ready("pod")
	n.refused("in use by another kubelet core", "--root-dir", n.root)
	n.kill()
	n.refused("is for the pods of owner", "--root-dir", n.root, "--owner", "somebody-else")
	n.start()
	n.ready("pod")
	file := filepath.Join(n.root, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "data", "file")
	text, err := os.ReadFile(file)
	testutil.Assert(t, err == nil && string(text) == "kept\n", "the volume has %q, %v", text, err)
}

// TestBesideAKubelet refuses to start while a program listens on a kubelet's port, unless a flag allows it.
func TestBesideAKubelet(t *testing.T) {
	// The port is the kubelet's port, at an address that only this test uses.
	n := prepareNode(t, "--beside-kubelet")
	n.ip = fmt.Sprintf("127.77.%d.%d", os.Getpid()>>8&0xff, os.Getpid()&0xff)
	port, err := net.Listen("tcp", net.JoinHostPort(n.ip, "10250"))
	testutil.Must(t, err)
	defer port.Close()
	n.refused("--beside-kubelet", "--root-dir", n.root)
	n.write("pod.yaml", simple("pod", "sleep 1000"))
	n.start()
	n.ready("pod")
}
