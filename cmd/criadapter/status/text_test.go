package status

import (
	"bytes"
	"flag"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/telemetry"
	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the transcripts anew")

func TestTranscripts(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	engine := &docker.Features{ServerVersion: "29.1.0", APIVersion: "1.52", StorageDriver: "overlayfs",
		CgroupVersion: 2, CgroupDriver: "systemd", Seccomp: true, LiveRestore: true}
	for name, answer := range map[string]Answer{
		"good": {
			Endpoint: "unix:///run/criadapter/criadapter.sock", Runtime: "docker 29.1.0", Engine: engine,
			Conditions: map[string]string{runtimeapi.RuntimeReady: "", runtimeapi.NetworkReady: ""},
			Handlers: []Handler{{Name: "", RecursiveReadOnly: true}, {Name: "runc", RecursiveReadOnly: true},
				{Name: "crun"}},
			Report: &Report{
				Version: "v0.2.0", PID: 812, Started: before(50 * time.Hour), Relisted: before(100 * time.Second),
				LastEvent: before(3 * time.Second), EventLag: 1234567, Pods: map[string]int{"ready": 3, "notready": 1},
				Containers: map[string]int{"running": 5, "exited": 2, "unknown": 0},
				Sessions:   map[string]int{"exec": 1},
				Commands:   Commands{Runtime: "runc version 1.1.5", ThroughRuntime: 412},
			},
		},
		"trouble": {
			Endpoint: "unix:///run/criadapter/criadapter.sock", Runtime: "docker 29.1.0", Engine: engine,
			Conditions: map[string]string{
				runtimeapi.RuntimeReady: "EngineUnavailable: the engine does not answer, see its log or restart it",
				runtimeapi.NetworkReady: "",
			},
			Handlers: []Handler{{}},
			Warnings: []string{"the checkpoint of pod sandbox aa was corrupt"},
			Report: &Report{
				Version: "v0.2.0", PID: 812, Started: before(70 * time.Second),
				CacheError: "the engine does not answer, see its log or restart it",
				CNI: telemetry.CNIFault{At: before(time.Hour), Operation: "ADD",
					Error: "no IP addresses available in network cbr0"},
				Slow: []telemetry.SlowCall{
					{Kind: "engine", Call: "create container", Ended: before(time.Minute), Took: 12345678901}},
				Quarantined: []string{"/var/lib/criadapter/pods/quarantine/aa.json"}, LogGaps: 2,
				Commands: Commands{ThroughEngine: 3, EngineReason: "/usr/bin/youki is neither runc nor crun"},
			},
		},
		"other": {
			Endpoint: "unix:///run/containerd/containerd.sock", Runtime: "containerd 1.7.2",
			Conditions: map[string]string{runtimeapi.RuntimeReady: "",
				runtimeapi.NetworkReady: "NetworkPluginNotReady: cni plugin not initialized"},
			Handlers: []Handler{{Name: "runc"}},
		},
	} {
		var text bytes.Buffer
		testutil.Must(t, answer.WriteText(&text, now))
		testutil.Equal(t, answer.Ready(), (name == "good"), "%s: ready", name)
		testutil.Golden(t, "testdata/"+name+".txt", text.String(), *update)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "less than 1s", time.Second: "1s", 59*time.Second + 999*time.Millisecond: "59s", 70 * time.Second: "1m10s",
		10 * time.Minute: "10m0s",
		time.Hour:        "1h0m", 47*time.Hour + 59*time.Minute: "47h59m", 49 * time.Hour: "2d1h",
	} {
		testutil.Equal(t, span(d), want, "%v", d)
	}
}
