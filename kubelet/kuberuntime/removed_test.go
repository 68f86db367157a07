package kuberuntime

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestAttemptAfterRemoval: another client removed the ended attempts of a container. The next attempt has the number
// after the newest log.
func TestAttemptAfterRemoval(t *testing.T) {
	b, pod := started(t, "app:a", "app:b")
	sandbox, err := b.opts.Specs.Sandbox(t.Context(), pod, 0)
	testutil.Must(t, err)
	logs := filepath.Join(sandbox.GetLogDirectory(), "a")
	testutil.Must(t, os.MkdirAll(logs, 0o755))
	testutil.Must(t, os.WriteFile(filepath.Join(logs, "7.log"), nil, 0o644))
	b.exit(pod, "a", 1)
	testutil.Must(t, b.runtime.RemoveContainer(t.Context(), b.status(pod).Container("a").ID))
	b.sync(pod, Probes{})
	testutil.Equal(t, b.status(pod).Container("a").Attempt, uint32(8), "attempt")
}

// TestHookOfUnlistedPod: the container's annotations have the preStop hook, and the port that it names.
func TestHookOfUnlistedPod(t *testing.T) {
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer server.Close()
	b := newBench(t)
	text := func(value any) string {
		out, err := json.Marshal(value)
		testutil.Must(t, err)
		return string(out)
	}
	port := int32(server.Listener.Addr().(*net.TCPAddr).Port)
	get := &v1.HTTPGetAction{Port: intstr.FromString("admin"), Host: "127.0.0.1"}
	k := containerKill{Container: model.ContainerStatus{Annotations: map[string]string{
		model.AnnotationPreStopHandler: text(v1.LifecycleHandler{HTTPGet: get}),
		model.AnnotationContainerPorts: text([]v1.ContainerPort{{Name: "admin", ContainerPort: port}}),
	}}}
	b.preStop(t.Context(), &v1.Pod{}, k, preStopHook(k), 5*time.Second)()
	testutil.Assert(t, len(asked) == 1, "the hook was not called: %v", b.events.List())
	k.Container.Annotations = map[string]string{model.AnnotationPreStopHandler: "{"}
	testutil.Assert(t, preStopHook(k) == nil, "a hook of an annotation that is not JSON")
}
