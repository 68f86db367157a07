package kubelet

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/packages/dashboard"
)

var (
	metricName = regexp.MustCompile(`\b(?:kubelet|storage|rest_client|volume_manager|process|go)_[a-z0-9_]+`)
	histograms = regexp.MustCompile(`_(?:bucket|count)$`)
)

// writer is a static pod with a claim and an emptyDir. It writes 2 MiB to the emptyDir and one line to its log.
const writer = `
  terminationGracePeriodSeconds: 0
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: scratch, emptyDir: {}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "dd if=/dev/zero of=/scratch/x bs=1M count=2; echo written; sleep 1000"]
    volumeMounts: [{name: data, mountPath: /data}, {name: scratch, mountPath: /scratch}]
`

// TestDashboardMetrics: a node with a pod has all metrics of the Grafana dashboard, with all labels of its legends.
func TestDashboardMetrics(t *testing.T) {
	n := newClusterNode(t)
	n.writePod("writer", writer)
	n.ready("writer")
	panels, err := dashboard.Read("../../contrib/grafana/kubelet-core.json")
	testutil.Must(t, err)
	eventually(t, "the dashboard's metrics are there", func() error {
		text, err := n.get("/metrics")
		if err != nil {
			return err
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
		if err != nil {
			return err
		}
		// These appear only after an eviction or a failed call.
		shown := map[string]bool{"kubelet_evictions": true, "kubelet_runtime_operations_errors_total": true}
		for name := range families {
			shown[name] = true
		}
		asked := 0
		for _, panel := range panels {
			for _, target := range panel.Targets {
				for _, name := range metricName.FindAllString(target.Expr, -1) {
					asked++
					if !shown[name] && !shown[histograms.ReplaceAllString(name, "")] {
						return fmt.Errorf("%s: no %s in\n%s", panel.Title, name, text)
					}
				}
			}
		}
		testutil.Assert(t, asked >= 20, "the dashboard asks for %d metrics", asked)
		return nil
	})
}

// TestSummaryOfDisks: the summary has volumes, logs and the ephemeral storage of a pod.
func TestSummaryOfDisks(t *testing.T) {
	n := newNode(t)
	n.writePod("writer", writer)
	pod := n.ready("writer")
	eventually(t, "the summary has the pod's files", func() error {
		of, err := n.summary(pod)
		if err != nil {
			return err
		}
		return wholeDisks(of)
	})
}

func wholeDisks(of statsapi.PodStats) error {
	const written = 2 << 20
	volumes := map[string]statsapi.VolumeStats{}
	for _, volume := range of.VolumeStats {
		volumes[volume.Name] = volume
	}
	scratch, data := volumes["scratch"], volumes["data"]
	switch {
	case scratch.UsedBytes == nil || *scratch.UsedBytes < written:
		return fmt.Errorf("the emptyDir is %+v", scratch)
	case data.PVCRef == nil || data.PVCRef.Name != "data" || data.CapacityBytes == nil:
		return fmt.Errorf("the claim is %+v", data)
	case of.EphemeralStorage == nil || *of.EphemeralStorage.UsedBytes < written:
		return fmt.Errorf("the ephemeral storage is %+v", of.EphemeralStorage)
	case len(of.Containers) != 1 || of.Containers[0].Logs == nil || *of.Containers[0].Logs.UsedBytes == 0:
		return fmt.Errorf("the containers are %+v", of.Containers)
	}
	return nil
}
