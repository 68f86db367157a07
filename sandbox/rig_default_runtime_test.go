package sandbox_test

import (
	"encoding/json"
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
	_, err := runtimeapi.NewImageServiceClient(r.server.Conn).PullImage(t.Context(), &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")},
	})
	r.must(err)
	pods := map[string]string{} // ids by handler
	for _, handler := range []string{"", "runc"} {
		response, err := r.runtime().RunPodSandbox(t.Context(),
			&runtimeapi.RunPodSandboxRequest{Config: r.config("pod"+handler, 0), RuntimeHandler: handler})
		r.must(err)
		pods[handler] = response.GetPodSandboxId()
		if _, err := r.engine.InspectContainer(t.Context(), pods[handler]); !errdefs.IsNotFound(err) {
			t.Fatalf("the pod of the handler %q has a sandbox container, %v", handler, err)
		}
	}
	r.must(setDefaultRuntime(filepath.Dir(env.DockerRoot), "other"))
	testutil.Eventually(t, func() error {
		status, err := r.runtime().Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
		if err == nil && !strings.Contains(fmt.Sprint(status.GetInfo()), `"DefaultRuntime":"other"`) {
			err = fmt.Errorf("the default runtime is still another one: %v", status.GetInfo())
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
			r.must(r.server.Stop(t.Context()))
			r.must(r.server.Start(t.Context()))
		}
	}
	for _, id := range pods {
		r.stop(id)
		r.remove(id)
	}
}

// setDefaultRuntime has an engine read its daemon.json again, with another default runtime.
func setDefaultRuntime(dir, name string) error {
	path := filepath.Join(dir, "daemon.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	config["default-runtime"] = name
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err != nil {
		return err
	}
	return syscall.Kill(number, syscall.SIGHUP)
}
