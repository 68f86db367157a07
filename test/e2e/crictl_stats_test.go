package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The tables of stats and statsp have a value in every column, and metricsp has metrics of the pod.
func TestCrictlStats(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	id := c.container(p, "busy", "test/busybox:latest", "sh", "-c",
		"echo something >/written; while :; do sleep 0.01; done")

	testutil.Eventually(t, func() error {
		header, row := table(c, id[:13], "stats", "-s", "1")
		if err := sameColumns(header, row, "CONTAINER", "NAME", "CPU %", "MEM", "DISK", "INODES", "SWAP"); err != nil {
			return err
		}
		if row[1] != "busy" || row[2] == "0.00" || row[3] == "0B" || row[4] == "0B" || row[5] == "0" {
			return fmt.Errorf("row %q", row)
		}
		return nil
	})
	header, row := table(c, p.id[:13], "statsp", "-s", "1")
	if err := sameColumns(header, row, "POD", "POD ID", "CPU %", "MEM"); err != nil {
		t.Error(err)
	} else if row[0] != p.name || row[2] == "0.00" || row[3] == "0B" {
		t.Errorf("row %q", row)
	}

	var metrics podMetrics
	c.read(&metrics, "metricsp", "-o", "json")
	// The engine may have pods of tests that run at the same time.
	i := slices.IndexFunc(metrics.PodMetrics, func(pod podMetric) bool { return pod.PodSandboxID == p.id })
	testutil.Require(t, i >= 0 && len(metrics.PodMetrics[i].ContainerMetrics) == 1,
		"want one container of pod %s in the metrics: %+v", p.id, metrics)
	same(t, "container of the metrics", metrics.PodMetrics[i].ContainerMetrics[0].ContainerID, id)
	for _, metric := range metrics.PodMetrics[i].ContainerMetrics[0].Metrics {
		if metric.Name == "" || metric.MetricType == "" || len(metric.LabelValues) < 6 || metric.Value.Value == "" {
			t.Errorf("metric %+v", metric)
		}
	}
}

// podMetrics is `crictl metricsp`.
type podMetrics struct {
	PodMetrics []podMetric
}

type podMetric struct {
	PodSandboxID     string
	Metrics          []metricEntry
	ContainerMetrics []struct {
		ContainerID string
		Metrics     []metricEntry
	}
}

type metricEntry struct {
	Name, MetricType string
	LabelValues      []string
	Value            struct{ Value string }
}

// table runs crictl, and returns the columns of the header and of the row that contains word.
func table(c *crictl, word string, args ...string) (header, row []string) {
	c.t.Helper()
	const clearScreen = "\x1b[2J\x1b[H"
	lines := strings.Split(strings.TrimPrefix(c.run(args...), clearScreen), "\n")
	for _, line := range lines {
		if strings.Contains(line, word) {
			return columns(lines[0]), columns(line)
		}
	}
	return columns(lines[0]), nil
}

// columns splits a line at runs of at least two spaces.
func columns(line string) []string {
	var all []string
	for column := range strings.SplitSeq(line, "  ") {
		if column = strings.TrimSpace(column); column != "" {
			all = append(all, column)
		}
	}
	return all
}

func sameColumns(header, row []string, want ...string) error {
	if strings.Join(header, "|") != strings.Join(want, "|") {
		return fmt.Errorf("columns %q, want %q", header, want)
	}
	if len(row) != len(want) {
		return fmt.Errorf("row %q, want a value in each column of %q", row, want)
	}
	return nil
}
