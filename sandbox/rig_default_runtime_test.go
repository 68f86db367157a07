package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestPodKeepsItsRuntime gives the engine another default runtime while pods without sandbox containers run. New
// containers of these pods use the runtime that the pods were made with.
func TestPodKeepsItsRuntime(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other-runc")
	testutil.Must(t, os.WriteFile(other, []byte("#!/bin/sh\nexec runc \"$@\"\n"), 0o755))
	env := rigenv.Require(t)
	runtimes := map[string]any{
		"other": map[string]any{"path": other},
		"criadapter": map[string]any{"path": env.OCIRuntime,
			"runtimeArgs": []string{"--criadapter-notes", filepath.Join(t.TempDir(), "notes")}},
	}
	env = ownEngine(t, map[string]any{"runtimes": runtimes})
	r := newRigOn(t, env, "--sandbox-container=needed", "--oci-runtime=required")
	r.pull(env.Image("test/busybox:latest"))
	pods := map[string]string{} // ids by handler
	for _, handler := range []string{"", "runc"} {
		pods[handler] = r.runConfig(r.config("pod"+handler, 0), handler)
		if _, err := r.engine.InspectContainer(t.Context(), pods[handler]); !errdefs.IsNotFound(err) {
			t.Fatalf("the pod of the handler %q has a sandbox container, %v", handler, err)
		}
	}
	r.setDefaultRuntime(filepath.Dir(env.DockerRoot), "other")
	testutil.Eventually(t, func() error {
		status, err := r.runtime().Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
		if err == nil && !strings.Contains(fmt.Sprint(status.GetInfo()), `"DefaultRuntime":"other"`) {
			err = fmt.Errorf("the default runtime is not yet \"other\": %v", status.GetInfo())
		}
		return err
	})
	for restart := range 2 {
		for handler, id := range pods {
			container := r.start(id, r.config("pod"+handler, 0), fmt.Sprint("c", restart))
			got := r.exec(container, "hostname")
			testutil.Assert(t, got == "pod"+handler, "the host name is %q in a pod of the handler %q", got, handler)
		}
		if restart == 0 {
			r.restart()
		}
	}
	for _, id := range pods {
		r.end(id)
	}
}

// setDefaultRuntime has an engine read its daemon.json again, with another default runtime.
func (r *rig) setDefaultRuntime(dir, name string) {
	r.Helper()
	r.editJSON(filepath.Join(dir, "daemon.json"), func(config map[string]any) { config["default-runtime"] = name })
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	r.must(err)
	number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	r.must(err)
	r.must(syscall.Kill(number, syscall.SIGHUP))
}
