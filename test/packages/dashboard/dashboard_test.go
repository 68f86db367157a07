package dashboard

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestDashboardIsDrawn(t *testing.T) {
	panels, err := Read("../../../contrib/grafana/criadapter.json")
	testutil.Require(t, err == nil && len(panels) >= 20, "%d panels, %v", len(panels), err)
	for i := range panels {
		if len(panels[i].Targets) == 0 {
			continue
		}
		answer := `[{"metric":{"instance":"n","method":"<Run>"},"values":[[1,"2"],[2,"NaN"],[3,"4"]]},{"metric":{},"values":[[1,"NaN"]]}]`
		series, err := Answer([]byte(answer), panels[i].Targets[0].LegendFormat)
		testutil.Require(t, err == nil && len(series) == 1 && len(series[0].Points) == 2, "%+v, %v", series, err)
		panels[i].Series = series
		query := Query(panels[i].Targets[0].Expr, "10s")
		testutil.Assert(t, !strings.Contains(query, "$"), "a variable is left in %s", query)
	}
	svg := SVG("a & b", panels)
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	testutil.Assert(t, strings.Count(svg, "<polyline") >= 15 && !strings.Contains(svg, "NaN"),
		"lines are missing:\n%s", svg)
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, text := range []string{"", "{}", `[{"values":[["1","2"]]}]`, `[{"values":[[1,2]]}]`,
		`[{"values":[[1,"x"]]}]`} {
		series, err := Answer([]byte(text), "")
		testutil.Assert(t, err != nil && !strings.Contains(err.Error(), "%!"), "%s: %v, %+v", text, err, series)
	}
}

func TestWritten(t *testing.T) {
	for want, value := range map[string]struct {
		value float64
		unit  string
	}{
		"0": {0, "s"}, "250 µs": {0.00025, "s"}, "12 ms": {0.012, "s"}, "1.5 s": {1.5, "s"},
		"2 MiB":     {2 << 20, "bytes"},
		"1.5 KiB/s": {1536, "Bps"}, "3/s": {3, "reqps"}, "7": {7, "none"}, "12 B": {12, "bytes"},
	} {
		testutil.Equal(t, written(value.value, value.unit), want, "%v %s", value.value, value.unit)
	}
}
