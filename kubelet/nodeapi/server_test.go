package nodeapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/criadapter/criadapter/internal/testutil"
)

func healthy() error { return nil }

// readOnly starts an endpoint that ends with the test, and returns a function that reads it.
func readOnly(t *testing.T, opts Options) func(path string) (int, string) {
	t.Helper()
	opts.Address = "127.0.0.1:0"
	s, err := Listen(opts)
	testutil.Must(t, err)
	testutil.Background(t, s.Run)
	return func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + s.Address() + path)
		testutil.Must(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		testutil.Must(t, err)
		return answer.StatusCode, string(body)
	}
}

// TestOnlyLoopbackNames: the endpoint refuses requests for other hosts. A web page can point its own name at 127.0.0.1,
// and a browser would let it read the pods.
func TestOnlyLoopbackNames(t *testing.T) {
	s, err := Listen(
		Options{Address: "127.0.0.1:0", Reads: Reads{Pods: func() []*v1.Pod { return nil }}, Events: func() []v1.Event {
			return nil
		}})
	testutil.Must(t, err)
	defer s.listener.Close()
	for host, want := range map[string]int{
		"127.0.0.1:10348": http.StatusOK, "127.0.0.1": http.StatusOK, "localhost:10348": http.StatusOK,
		"LocalHost":   http.StatusOK,
		"[::1]:10348": http.StatusOK, "[::1]": http.StatusOK, "evil.example:10348": http.StatusForbidden,
		"evil.example":                 http.StatusForbidden,
		"localhost.evil.example:10348": http.StatusForbidden, "192.0.2.1:10348": http.StatusForbidden,
		"": http.StatusForbidden,
	} {
		for _, path := range []string{"/pods", "/events", "/nothing"} {
			request := httptest.NewRequest(http.MethodGet, path, nil)
			request.Host = host
			response := httptest.NewRecorder()
			s.handler.ServeHTTP(response, request)
			testutil.Assert(t, (response.Code == http.StatusForbidden) == (want == http.StatusForbidden),
				"host %q, %s: %d %s", host, path, response.Code, response.Body)
		}
	}
}

func TestReads(t *testing.T) {
	var unhealthy, away error
	stats := &figures{}
	pod := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
		{Name: "c", RestartCount: 3, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}}}
	pod.Name, pod.Namespace, pod.UID = "pod", "ns", "u"
	read := readOnly(t, Options{
		Reads: Reads{
			Config: Config{Node: "node", RootDir: t.TempDir()}, Pods: func() []*v1.Pod { return []*v1.Pod{pod} },
			Healthy: func() error { return unhealthy }, RuntimeErr: func() error {
				return away
			}, Stats: stats, Evented: func() bool { return true },
			SentEvents: func() map[string]int64 { return map[string]int64{"sent": 7, "dropped": 2} },
		},
		Events: func() []v1.Event { return []v1.Event{{Reason: "Happened"}} },
	})
	for path, want := range map[string][]string{
		"/pods":    {`"kind":"PodList"`, `"name":"pod"`, `"phase":"Running"`},
		"/events":  {`"kind":"EventList"`, `"reason":"Happened"`},
		"/healthz": {"ok"},
		"/configz": {`"node":"node"`},
		"/metrics": {"kubelet_running_pods 1\n", "kubelet_runtime_healthy 1\n", `kubelet_pods{phase="Running"} 1`,
			`{namespace="ns",pod="pod",pod_uid="u",container="c"} 3`, "kubelet_evented_pleg 1",
			`kubelet_events_total{outcome="dropped"} 2`, `kubelet_events_total{outcome="sent"} 7`},
	} {
		code, body := read(path)
		for _, part := range want {
			testutil.Assert(t, code == http.StatusOK && strings.Contains(body, part),
				"%s: %d, lacks %q:\n%s", path, code, part, body)
		}
	}
	away, stats.err = errors.New("away"), errors.New("away")
	_, body := read("/metrics")
	testutil.Assert(t, strings.Contains(body, "kubelet_runtime_healthy 0\n"), "the runtime is away:\n%s", body)
	code, body := read("/healthz")
	testutil.Assert(t, code == http.StatusOK, "the runtime is away: %d %s", code, body)
	unhealthy = errors.New("away")
	if code, body := read("/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "away") {
		t.Errorf("unhealthy: %d %s", code, body)
	}
	for path, want := range map[string]int{"/stats/summary": http.StatusBadGateway,
		"/metrics/cadvisor": http.StatusBadGateway, "/metrics/resource": http.StatusOK} {
		if code, body := read(path); code != want ||
			code == http.StatusOK && !strings.HasSuffix(body, "\nresource_scrape_error 1\n") {
			t.Errorf("%s without figures: %d\n%s", path, code, body)
		}
	}
	code, _ = read("/nothing")
	testutil.Assert(t, code == http.StatusNotFound, "unknown path: %d", code)
}

// TestReadOnlyHidesValues: /pods shows no values of the environment, which /proc hides from other users, too. It shows
// no values of headers of probes and hooks. Names stay visible, and the kubelet's own pod is not changed.
func TestReadOnlyHidesValues(t *testing.T) {
	const secret = "s3cr3t"
	get := &v1.HTTPGetAction{HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: secret}}}
	probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: get}}
	hook := &v1.LifecycleHandler{HTTPGet: get}
	c := v1.Container{
		Name: "c", Env: []v1.EnvVar{{Name: "PASSWORD", Value: secret}, {Name: "EMPTY"}},
		LivenessProbe: probe, ReadinessProbe: probe, StartupProbe: probe,
		Lifecycle: &v1.Lifecycle{PostStart: hook, PreStop: hook},
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{c}, InitContainers: []v1.Container{c},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)}},
	}}
	pod.Annotations = map[string]string{v1.LastAppliedConfigAnnotation: secret, "note": "shown"}
	read := readOnly(t, Options{
		Reads: Reads{
			Config: Config{RootDir: t.TempDir()}, Pods: func() []*v1.Pod { return []*v1.Pod{pod} },
			Healthy: healthy, RuntimeErr: healthy, Stats: &figures{}, Evented: func() bool { return true },
		},
		Events: func() []v1.Event { return nil },
	})
	before := pod.DeepCopy()
	_, body := read("/pods")
	testutil.Assert(t, !strings.Contains(body, secret), "a value is shown: %s", body)
	for _, want := range []string{`"PASSWORD"`, `"EMPTY"`, `"Authorization"`, `"note":"shown"`} {
		testutil.Assert(t, strings.Contains(body, want), "%s is not shown: %s", want, body)
	}
	testutil.Assert(t, equality.Semantic.DeepEqual(before, pod), "the pod itself was changed")
}

func TestListenRefusesOthers(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.org:0", "nonsense"} {
		_, err := Listen(Options{Address: address})
		testutil.Assert(t, err != nil, "Listen accepted %s", address)
	}
	s, err := Listen(Options{Address: "localhost:0"})
	testutil.Must(t, err)
	s.listener.Close()
}
