package main

import (
	"fmt"

	"github.com/containerd/log"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// quietKlog writes the log of the Kubernetes libraries to our log at level debug, because they report each client that
// goes away as an error. Call it once, before other goroutines log: klog is not safe for concurrent changes.
func quietKlog() { klog.SetLogger(logr.New(klogSink{})) }

// klogSink is a logr.LogSink. Its fields are added to each line.
type klogSink struct {
	fields []any
}

// Init implements logr.LogSink.
func (klogSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (klogSink) Enabled(int) bool { return log.L.Logger.IsLevelEnabled(log.DebugLevel) }

// Info implements logr.LogSink.
func (s klogSink) Info(_ int, message string, fields ...any) { s.entry(fields).Debug(message) }

// Error implements logr.LogSink.
func (s klogSink) Error(err error, message string, fields ...any) {
	s.entry(fields).WithError(err).Debug(message)
}

// WithValues implements logr.LogSink.
func (s klogSink) WithValues(fields ...any) logr.LogSink {
	return klogSink{fields: append(s.fields[:len(s.fields):len(s.fields)], fields...)}
}

// WithName implements logr.LogSink.
func (s klogSink) WithName(name string) logr.LogSink { return s.WithValues("logger", name) }

// entry adds fields in logr's form of alternating keys and values.
func (s klogSink) entry(fields []any) *log.Entry {
	all := append(s.fields[:len(s.fields):len(s.fields)], fields...)
	entry := log.L.WithField("component", "klog")
	for i := 0; i+1 < len(all); i += 2 {
		entry = entry.WithField(fmt.Sprint(all[i]), all[i+1])
	}
	return entry
}
