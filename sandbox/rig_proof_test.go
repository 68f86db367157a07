package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// probeRefuser is a proxy in front of an engine. It fails the containers that test the OCI runtime, as an engine on a
// full disk does.
type probeRefuser struct {
	refuse atomic.Bool
	probes atomic.Int64
}

// newProbeRefuser puts the proxy in front of env's engine.
func newProbeRefuser(t *testing.T, env *rigenv.Env) *probeRefuser {
	t.Helper()
	p := &probeRefuser{}
	env.DockerHost = engine.Proxy(t, *env, func(proxy *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Query().Get("name"), "criadapter-probe-") {
				p.probes.Add(1)
				if p.refuse.Load() {
					w.Header().Set("Content-Type", "application/json")
					http.Error(w, `{"message":"no space left on device"}`, http.StatusInternalServerError)
					return
				}
			}
			proxy.ServeHTTP(w, r)
		})
	})
	return p
}

// TestPodsOutliveAFailedProof restarts criadapter on an engine that cannot make another container to prove the runtime.
// The proof of an earlier start still counts. Without any proof, containers can still be created in existing pods
// without a sandbox container, and new pods get sandbox containers. Within seconds after the runtime works again, new
// pods get no sandbox container.
func TestPodsOutliveAFailedProof(t *testing.T) {
	// criadapter sees the proxy as the engine's process. The proxy has no shim on its PATH, so daemon.json names the
	// runtime.
	env := rigenv.Require(t)
	env.Registration = rigenv.RegistrationDaemonJSON
	env = ownEngineOf(t, env, nil)
	notes := filepath.Join(filepath.Dir(env.DockerRoot), "notes")
	refuser := newProbeRefuser(t, &env)
	r := newRigOn(t, env, "--sandbox-container=needed")
	r.pull(env.Image("test/busybox:latest"))
	// made checks that the pod has a sandbox container, or none if held is set. Then it runs a container in the pod.
	containers := 0
	made := func(id, name string, held bool) {
		t.Helper()
		testutil.Assert(t, held != r.hasSandboxContainer(id),
			"pod %s has no sandbox container: %v, want %v", name, !held, held)
		containers++
		testutil.Equal(t, r.exec(r.start(id, r.config(name, 0), fmt.Sprint("c", containers)), "hostname"), name,
			"a container of pod %s has the host name", name)
	}
	old := r.run("old", 0)
	if made(old, "old", true); refuser.probes.Load() == 0 {
		t.Fatal("the runtime was not proved by a container")
	}

	refuser.refuse.Store(true)
	r.must(r.server.Stop(t.Context()))
	refuser.probes.Store(0)
	r.must(r.server.Start(t.Context()))
	kept := r.run("kept", 0)
	if made(kept, "kept", true); refuser.probes.Load() != 0 {
		t.Errorf("%d containers were made to repeat a proof that still counts", refuser.probes.Load())
	}

	r.must(r.server.Stop(t.Context()))
	r.must(os.Remove(filepath.Join(notes, "proof.json"))) // as after an upgrade: nothing proves the new engine
	r.must(r.server.Start(t.Context()))
	r.wantReady(old)
	r.must(r.announced(false))
	made(old, "old", true)
	fresh := r.run("fresh", 0)
	made(fresh, "fresh", false)

	refuser.refuse.Store(false)
	testutil.Eventually(t, func() error { return r.announced(true) })
	late := r.run("late", 0)
	made(late, "late", true)
	r.end(old, kept, fresh, late)
}

// hasSandboxContainer reports whether the engine has a container for the pod.
func (r *rig) hasSandboxContainer(id string) bool {
	_, err := r.engine.InspectContainer(r.Context(), id)
	return err == nil
}

// announced fails unless Status announces the features of the OCI runtime, or does not announce them if want is false.
func (r *rig) announced(want bool) error {
	status, err := r.runtime().Status(r.Context(), &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	if got := status.GetFeatures().GetSupplementalGroupsPolicy(); got != want {
		return fmt.Errorf("the features of the OCI runtime are announced: %v, want %v", got, want)
	}
	return nil
}
