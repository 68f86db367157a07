package nodeapi

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Kinds of metrics.
const (
	gauge   = dto.MetricType_GAUGE
	counter = dto.MetricType_COUNTER
)

// exposition gathers the metrics of one scrape.
type exposition struct {
	families []*family
	// measured are written after the families.
	measured []*dto.MetricFamily
}

// family is the samples of one name.
type family struct{ dto.MetricFamily }

// label is a sample's label.
type label struct{ name, value string }

// family begins the samples of a new name. A family without samples is left out.
func (e *exposition) family(name string, kind dto.MetricType, help string) *family {
	f := &family{dto.MetricFamily{Name: &name, Type: &kind, Help: &help}}
	e.families = append(e.families, f)
	return f
}

// sample adds a sample. A zero time means now.
func (f *family) sample(value float64, at time.Time, labels ...label) {
	metric := &dto.Metric{}
	if f.GetType() == counter {
		metric.Counter = &dto.Counter{Value: &value}
	} else {
		metric.Gauge = &dto.Gauge{Value: &value}
	}
	for _, l := range labels {
		metric.Label = append(metric.Label,
			&dto.LabelPair{Name: &l.name, Value: new(strings.ToValidUTF8(l.value, "\uFFFD"))})
	}
	if !at.IsZero() {
		metric.TimestampMs = new(at.UnixMilli())
	}
	f.Metric = append(f.Metric, metric)
}

// single adds a family with one sample.
func (e *exposition) single(name string, kind dto.MetricType, help string, value float64) {
	e.family(name, kind, help).sample(value, time.Time{})
}

// write sends the metrics in Prometheus' text format.
func (e *exposition) write(w http.ResponseWriter) {
	var text bytes.Buffer
	all := make([]*dto.MetricFamily, 0, len(e.families)+len(e.measured))
	for _, f := range e.families {
		all = append(all, &f.MetricFamily)
	}
	for _, f := range append(all, e.measured...) {
		if len(f.Metric) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	_, _ = w.Write(text.Bytes()) // a scraper that left needs no response
}
