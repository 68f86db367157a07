package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kinds of metrics.
const (
	gauge   = "gauge"
	counter = "counter"
)

// exposition is a text in Prometheus' format. Metrics of one name must follow each other.
type exposition struct{ text bytes.Buffer }

// label is one of a sample's.
type label struct{ name, value string }

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// family begins the samples of one name.
func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(&e.text, "# HELP %s %s\n# TYPE %s %s\n", name, escapeHelp.Replace(help), name, kind)
}

// sample writes one sample; a zero time means that the figure is of now.
func (e *exposition) sample(name string, value float64, at time.Time, labels ...label) {
	e.text.WriteString(name)
	for i, l := range labels {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		e.text.WriteByte(before)
		fmt.Fprintf(&e.text, `%s="%s"`, l.name, escapeLabel.Replace(strings.ToValidUTF8(l.value, "\uFFFD")))
	}
	if len(labels) > 0 {
		e.text.WriteByte('}')
	}
	e.text.WriteByte(' ')
	e.text.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	if !at.IsZero() {
		fmt.Fprintf(&e.text, " %d", at.UnixMilli())
	}
	e.text.WriteByte('\n')
}

// single is a family of one sample.
func (e *exposition) single(name, kind, help string, value float64) {
	e.family(name, kind, help)
	e.sample(name, value, time.Time{})
}

// answer sends it.
func (e *exposition) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(e.text.Bytes()) // a scraper that left needs no answer
}
