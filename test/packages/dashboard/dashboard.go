// Package dashboard draws a picture of a Grafana dashboard, from the results of its queries. It has only what a picture
// in a document needs: panels of the types row, stat and timeseries.
package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Panel is one panel with the results of its queries.
type Panel struct {
	Type, Title string
	// GridPos is the place on a grid of 24 columns.
	GridPos struct{ X, Y, W, H float64 }
	Targets []struct{ Expr, LegendFormat string }
	// Unit is how values are written: s, bytes, Bps, reqps or none.
	FieldConfig struct{ Defaults struct{ Unit string } }
	// Series has the results. The caller fills it in.
	Series []Series `json:"-"`
}

// Series is one line.
type Series struct {
	Legend string
	Points []Point
}

// Point is a value at a time in seconds.
type Point struct{ At, Value float64 }

// Read reads a dashboard's panels, in the order of the file.
func Read(path string) ([]Panel, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d struct{ Panels []Panel }
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d.Panels, nil
}

// Query fills in the variables of a target's query.
func Query(expr, rateInterval string) string {
	return strings.NewReplacer("$__rate_interval", rateInterval, "$job", ".*", "$instance", ".*").Replace(expr)
}

// Answer reads the output of `promtool query range -o json`.
func Answer(text []byte, legend string) ([]Series, error) {
	var matrix []struct {
		Metric map[string]string
		Values [][2]any
	}
	if err := json.Unmarshal(text, &matrix); err != nil {
		return nil, err
	}
	var all []Series
	for _, m := range matrix {
		s := Series{Legend: legend}
		for label, value := range m.Metric {
			s.Legend = strings.ReplaceAll(s.Legend, "{{"+label+"}}", value)
		}
		for _, value := range m.Values {
			at, isNumber := value[0].(float64)
			text, isText := value[1].(string)
			if !isNumber || !isText {
				return nil, fmt.Errorf("a value is %v, not a number and a text", value)
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("a value is %v: %w", value, err)
			}
			if v == v { // not NaN, the result of 0/0
				s.Points = append(s.Points, Point{at, v})
			}
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Series) int { return strings.Compare(a.Legend, b.Legend) })
	return all, nil
}
