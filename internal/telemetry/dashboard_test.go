package telemetry

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/criadapter/criadapter/internal/testutil"
)

// dashboard has the fields of a Grafana dashboard that the tests use.
type dashboard struct {
	Panels []struct {
		Type, Title, Description string
		Targets                  []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:criadapter|go|process)_[a-z0-9_]+`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	legend     = regexp.MustCompile(`{{(\w+)}}`)
	selectors  = regexp.MustCompile(`(\w+)[=!]~?"`)
	variable   = regexp.MustCompile(`\$(?:\{)?(\w+)`)
)

// scraped are the labels that Prometheus adds.
var scraped = []string{"job", "instance"}

func TestDashboardNamesExistingMetrics(t *testing.T) {
	raw := testutil.ReadFile(t, "../../contrib/grafana/criadapter.json")
	var d dashboard
	testutil.Must(t, json.Unmarshal([]byte(raw), &d))
	_, body := serve(t, ServerOptions{Metrics: used()}).get("/metrics")
	labels := labelsOf(parse(t, strings.NewReader(body)))
	shown := map[string]bool{}
	for _, panel := range d.Panels {
		if panel.Type == "row" {
			continue
		}
		testutil.Assert(t, len(panel.Targets) != 0 && panel.Description != "",
			"%s: no query or no description", panel.Title)
		for _, target := range panel.Targets {
			for _, name := range checkQuery(t, panel.Title, target.Expr, target.LegendFormat, labels) {
				shown[name] = true
			}
		}
	}
	for name := range labels {
		if strings.HasPrefix(name, "criadapter_") && !anySeries(shown, name) {
			t.Errorf("%s is exposed and on no panel", name)
		}
	}
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		for _, name := range metricName.FindAllString(v.Definition, -1) {
			_, ok := labels[name]
			testutil.Assert(t, ok, "the variable %s asks for %s, which does not exist", v.Name, name)
		}
	}
	for _, used := range variable.FindAllStringSubmatch(raw, -1) {
		if !slices.Contains(variables, used[1]) && used[1] != "__all" {
			t.Errorf("a query uses $%s, which is not a variable", used[1])
		}
	}
}

// checkQuery returns the one series that a query names. The series must exist and have all labels that the query uses.
func checkQuery(t *testing.T, title, query, legendFormat string, labels map[string][]string) []string {
	t.Helper()
	names := metricName.FindAllString(query, -1)
	if len(names) != 1 {
		t.Errorf("%s: %q names %d metrics, this test expects one", title, query, len(names))
		return nil
	}
	has, ok := labels[names[0]]
	if !ok {
		t.Errorf("%s: %q asks for %s, which does not exist", title, query, names[0])
		return nil
	}
	var wanted []string
	for _, by := range grouping.FindAllStringSubmatch(query, -1) {
		grouped := strings.Split(by[1], ", ")
		wanted = append(wanted, grouped...)
		for _, name := range legend.FindAllStringSubmatch(legendFormat, -1) {
			testutil.Assert(t, slices.Contains(grouped, name[1]),
				"%s: the legend has the label %s, which the query aggregates away", title, name[1])
		}
	}
	for _, selector := range selectors.FindAllStringSubmatch(query, -1) {
		wanted = append(wanted, selector[1])
	}
	for _, label := range wanted {
		if !slices.Contains(has, label) && !slices.Contains(scraped, label) {
			t.Errorf("%s: %q uses the label %s, %s has %v", title, query, label, names[0], has)
		}
	}
	return names
}

// labelsOf returns the labels of each series by its name in queries.
func labelsOf(families map[string]*dto.MetricFamily) map[string][]string {
	all := map[string][]string{}
	for name, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		if family.GetType() != dto.MetricType_HISTOGRAM {
			all[name] = labels
			continue
		}
		all[name+"_bucket"] = append(labels, "le")
		all[name+"_sum"], all[name+"_count"] = labels, labels
	}
	return all
}

// anySeries reports whether a panel shows the metric, or any series of the same histogram.
func anySeries(shown map[string]bool, name string) bool {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return shown[base+"_bucket"] || shown[base+"_sum"] || shown[base+"_count"]
		}
	}
	return shown[name]
}
