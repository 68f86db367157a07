package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// A runtime that boots a virtual machine takes over the network interfaces at boot. Docker cannot start it in an
// existing network namespace. The test's stand-in is runc under the name of such a runtime. A program with an unknown
// name counts as a wrapper of runc.
func TestRuntimeThatTakesItsInterfacesAtBootIsRefused(t *testing.T) {
	env := rigenv.Require(t)
	runc := env.RuntimeWrapper
	if runc == "" {
		var err error
		runc, err = exec.LookPath("runc")
		testutil.Must(t, err)
	}
	dir, err := os.MkdirTemp(env.WorkDir, "runtimes")
	testutil.Must(t, err)
	runtimes := map[string]any{}
	for _, program := range []string{"kata-runtime", "oci-hook"} {
		path := filepath.Join(dir, program)
		testutil.Must(t, os.Symlink(runc, path))
		runtimes["my-"+program] = map[string]any{"path": path}
	}
	r := newRigOn(t, ownEngine(t, map[string]any{"runtimes": runtimes}))

	response, err := r.runtime().Status(t.Context(), &runtimeapi.StatusRequest{})
	r.must(err)
	var handlers []string
	for _, handler := range response.GetRuntimeHandlers() {
		handlers = append(handlers, handler.GetName())
	}
	for name, want := range map[string]bool{"": true, "runc": true, "my-oci-hook": true, "my-kata-runtime": false} {
		testutil.Assert(t, slices.Contains(handlers, name) == want,
			"the handlers are %q, want %q among them: %v", handlers, name, want)
	}
	run := func(handler string) (string, error) {
		response, err := r.runtime().RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{
			Config: r.config("of-"+handler, 0), RuntimeHandler: handler,
		})
		return response.GetPodSandboxId(), err
	}
	if id, err := run("my-kata-runtime"); status.Code(err) != codes.Unimplemented {
		t.Errorf("made the pod %q, %v", id, err)
	}
	left := r.containers(t.Context())
	testutil.Assert(t, len(left) == 0, "the engine has %v", left)
	id, err := run("my-oci-hook")
	r.must(err)
	r.wantReady(id)
	r.removeLast(id)
}
