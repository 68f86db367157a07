package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// fakeKata stands in for the shim of Kata Containers, which needs KVM. When containerd starts the stand-in, the
// stand-in checks what Kata's shim requires of a container. Then it becomes runc's shim. A sandbox has to be in a
// network namespace with an interface. Any other container has to name an existing sandbox.
const fakeKata = `#!/bin/sh
case "$*" in *start*) ;; *) exec containerd-shim-runc-v2 "$@" ;; esac
field() { sed -n 's/.*"io.kubernetes.cri.'$1'":"\([^"]*\)".*/\1/p' config.json; }
refuse() { echo "fake Kata: $1" >&2; exit 1; }
case $(field container-type) in
sandbox)
	network=$(sed -n 's/.*"path":"\([^"]*\)","type":"network".*/\1/p' config.json)
	nsenter --net="$network" cat /proc/net/dev | grep -q eth0 || refuse "no interface in '$network'"
	echo "sandbox ${PWD##*/}" >> LOG ;;
container)
	[ -d "../$(field sandbox-id)" ] || refuse "no sandbox '$(field sandbox-id)'"
	echo "container of $(field sandbox-id)" >> LOG ;;
*) refuse "no container type" ;;
esac
exec containerd-shim-runc-v2 "$@"
`

// TestKataContract: Kata's shim gets a sandbox whose network is ready, and the sandbox's id for every other container.
func TestKataContract(t *testing.T) {
	env := rigenv.Require(t)
	dir, err := os.MkdirTemp(env.WorkDir, "kata")
	testutil.Must(t, err)
	seen := filepath.Join(dir, "seen")
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "containerd-shim-kata-v2"),
		[]byte(strings.ReplaceAll(fakeKata, "LOG", seen)), 0o755))
	testutil.Must(t, os.Symlink(filepath.Join(filepath.Dir(env.OCIRuntime), "containerd-shim-criadapter-v2"),
		filepath.Join(dir, "containerd-shim-criadapter-v2")))
	own := engine.ForTest(t, engine.Options{
		Env: env, Path: dir,
		Config: map[string]any{"runtimes": map[string]any{
			"kata": map[string]any{"runtimeType": "io.containerd.kata.v2"},
		}},
	})
	c := newCrictlOn(t, own.Use(env))
	var info struct{ Engine docker.Features }
	c.read(&info, "info")
	if !info.Engine.Supports("1.42") { // Docker Engine 23 is the first that runs shims by their names
		refused := c.try("runp", "--runtime=kata", c.write("pod.json", map[string]any{
			"metadata": map[string]any{"name": "a", "namespace": "e2e", "uid": "u"}, "linux": map[string]any{},
		}))
		testutil.Assert(t, refused.code != 0 && strings.Contains(refused.stderr, "runtime_handler"), "runp: %+v",
			refused)
		return
	}
	c.awaitOCIRuntime()
	p := c.runPod("--runtime=kata")
	id := c.container(p, "main", shellImage, "sleep", "1000")
	same(t, "the command's output", strings.TrimSpace(c.run("exec", "-s", id, "echo", "alive")), "alive")
	same(t, "what the shim saw", testutil.ReadFile(t, seen), "sandbox "+p.id+"\ncontainer of "+p.id+"\n")
	c.run("stopp", p.id)
	c.run("rmp", "-f", p.id)
}
