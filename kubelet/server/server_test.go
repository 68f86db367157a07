package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// figures answers with one pod, or not at all.
type figures struct {
	Stats
	err error
}

func (f *figures) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	if f.err != nil {
		return nil, f.err
	}
	return []*runtimeapi.PodSandboxStats{{
		Attributes: &runtimeapi.PodSandboxAttributes{Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: "u"}},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Network: &runtimeapi.NetworkUsage{DefaultInterface: &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: &runtimeapi.UInt64Value{Value: 7}}},
			Containers: []*runtimeapi.ContainerStats{{
				Attributes: &runtimeapi.ContainerAttributes{Labels: map[string]string{model.LabelContainerName: "c"}},
				Memory:     &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 42}},
			}},
		},
	}}, nil
}

// serve starts an endpoint that ends with the test, and returns how to read it.
func serve(t *testing.T, opts Options) func(path string) (int, string) {
	t.Helper()
	opts.Address = "127.0.0.1:0"
	s, err := Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + s.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

func TestReads(t *testing.T) {
	var unhealthy error
	stats := &figures{}
	pod := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
		{Name: "c", RestartCount: 3, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}}}
	pod.Name, pod.Namespace = "pod", "ns"
	read := serve(t, Options{
		Config: Config{Node: "node"}, Pods: func() []*v1.Pod { return []*v1.Pod{pod} },
		Events:  func() []v1.Event { return []v1.Event{{Reason: "Happened"}} },
		Healthy: func() error { return unhealthy }, Stats: stats, Evented: func() bool { return true },
	})
	for path, want := range map[string][]string{
		"/pods":    {`"kind":"PodList"`, `"name":"pod"`, `"phase":"Running"`},
		"/events":  {`"kind":"EventList"`, `"reason":"Happened"`},
		"/healthz": {"ok"},
		"/configz": {`"node":"node"`},
		"/metrics": {"kubelet_running_pods 1\n", `kubelet_pods{phase="Running"} 1`, `{namespace="ns",pod="pod",container="c"} 3`, "kubelet_evented_pleg 1"},
	} {
		code, body := read(path)
		for _, part := range want {
			if code != http.StatusOK || !strings.Contains(body, part) {
				t.Errorf("%s: %d, lacks %q:\n%s", path, code, part, body)
			}
		}
	}
	code, body := read("/stats/summary")
	var summary Summary
	if err := json.Unmarshal([]byte(body), &summary); code != http.StatusOK || err != nil {
		t.Fatalf("%d, %v: %s", code, err, body)
	}
	if p := summary.Pods[0]; p.PodRef.UID != "u" || *p.Network.RxBytes != 7 || p.Containers[0].Name != "c" ||
		*p.Containers[0].Memory.WorkingSetBytes != 42 || p.Containers[0].CPU != nil {
		t.Errorf("summary %s", body)
	}
	unhealthy, stats.err = errors.New("away"), errors.New("away")
	if code, body := read("/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "away") {
		t.Errorf("unhealthy: %d %s", code, body)
	}
	if code, _ := read("/stats/summary"); code != http.StatusBadGateway {
		t.Errorf("without figures: %d", code)
	}
	if code, _ := read("/nothing"); code != http.StatusNotFound {
		t.Errorf("unknown path: %d", code)
	}
}

func TestListenRefusesOthers(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.org:0", "nonsense"} {
		if s, err := Listen(Options{Address: address}); err == nil {
			t.Errorf("%s: listens on %s", address, s.Address())
		}
	}
	s, err := Listen(Options{Address: "localhost:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.listener.Close()
}
