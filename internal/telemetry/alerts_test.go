package telemetry

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the tables of docs/monitoring.md")

// alert has the fields of a Prometheus alert rule that the tests use.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// selected is a metric with its label matchers in a query.
var selected = regexp.MustCompile(`\b((?:criadapter|go|process)_[a-z0-9_]+)\{([^}]*)\}`)

func readAlerts(t *testing.T) []alert {
	t.Helper()
	raw, err := os.ReadFile("../../contrib/prometheus/alerts.yaml")
	testutil.Must(t, err)
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(raw, &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%d groups, %v", len(file.Groups), err)
	}
	return file.Groups[0].Rules
}

// TestAlertsNameExistingMetrics checks that the alert rules use exposed metrics only. promtool checks that the rules
// are valid and fire when they should (make package-test).
func TestAlertsNameExistingMetrics(t *testing.T) {
	_, body := serve(t, ServerOptions{Metrics: used()}).get("/metrics")
	labels := labelsOf(parse(t, strings.NewReader(body)))
	seen := map[string]bool{}
	for _, a := range readAlerts(t) {
		if a.Alert == "" || seen[a.Alert] || a.Annotations["summary"] == "" || a.Annotations["description"] == "" ||
			a.Labels["severity"] == "" {
			t.Errorf("%q has no unique name, or lacks severity, summary or description", a.Alert)
		}
		seen[a.Alert] = true
		names, queries := metricName.FindAllString(a.Expr, -1), selected.FindAllStringSubmatch(a.Expr, -1)
		testutil.Assert(t, len(names) == len(queries),
			"%s: a metric is queried without {job=…}: %s", a.Alert, a.Expr)
		var grouped []string
		for _, by := range grouping.FindAllStringSubmatch(a.Expr, -1) {
			grouped = append(grouped, strings.Split(by[1], ", ")...)
		}
		for _, query := range queries {
			has, ok := labels[query[1]]
			testutil.Assert(t, ok, "%s asks for %s, which does not exist", a.Alert, query[1])
			named := slices.Clone(grouped)
			for _, selector := range selectors.FindAllStringSubmatch(query[2], -1) {
				named = append(named, selector[1])
			}
			for _, label := range named {
				if !slices.Contains(has, label) && !slices.Contains(scraped, label) {
					t.Errorf("%s uses the label %s, %s has %v", a.Alert, label, query[1], has)
				}
			}
		}
	}
	testutil.Assert(t, len(seen) >= 10, "only %d alerts were read", len(seen))
}

// A rule that leaves out outcomes leaves out exactly ok and canceled.
func TestAlertsKnowTheOutcomes(t *testing.T) {
	for _, a := range readAlerts(t) {
		for _, m := range regexp.MustCompile(`outcome!~"([^"]*)"`).FindAllStringSubmatch(a.Expr, -1) {
			if words := strings.Split(m[1], "|"); !slices.Equal(words, []string{outcome(nil), "canceled"}) {
				t.Errorf("%s leaves out the outcomes %q", a.Alert, words)
			}
		}
	}
}

// metricsTable returns a table of our own metrics with their help texts.
func metricsTable(t *testing.T) string {
	t.Helper()
	_, body := serve(t, ServerOptions{Metrics: used()}).get("/metrics")
	families := parse(t, strings.NewReader(body))
	var table strings.Builder
	table.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		family := families[name]
		if !strings.HasPrefix(name, namespace+"_") {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		table.WriteString("| `" + name + "` | " + strings.ToLower(family.GetType().String()) + " | " +
			strings.Join(labels, ", ") + " | " + family.GetHelp() + " |\n")
	}
	return table.String()
}

// alertsTable returns a table of the alerts with their descriptions.
func alertsTable(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("| alert | severity | what it means, and where to look |\n|---|---|---|\n")
	for _, a := range readAlerts(t) {
		table.WriteString("| `" + a.Alert + "` | " + a.Labels["severity"] + " | " + a.Annotations["description"] +
			" |\n")
	}
	return table.String()
}

// TestMonitoringDocument checks the tables of metrics and alerts in docs/monitoring.md.
func TestMonitoringDocument(t *testing.T) {
	testutil.Section(t, "../../docs/monitoring.md", "metrics", metricsTable(t), *update)
	testutil.Section(t, "../../docs/monitoring.md", "alerts", alertsTable(t), *update)
}
