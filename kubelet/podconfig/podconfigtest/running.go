// Package podconfigtest runs a source of pods in a test, and waits for its changes and errors.
package podconfigtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/podconfig"
)

// Errors collects the reported errors of a source. It is safe for concurrent use.
type Errors struct {
	mu   sync.Mutex
	all  []error
	read int // the errors that Await has returned
	more chan struct{}
}

// NewErrors makes a collection without errors.
func NewErrors() *Errors { return &Errors{more: make(chan struct{}, 100)} }

// Add implements a source's Options.Problem.
func (e *Errors) Add(_ string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, err)
	e.more <- struct{}{}
}

// All returns the errors so far. A nil error means that the problem before it is over.
func (e *Errors) All() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Await waits for the next error and returns it.
func (e *Errors) Await(t testing.TB) error {
	t.Helper()
	testutil.Receive(t, e.more, "no error is reported")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read++
	return e.all[e.read-1]
}

// Running is a running source.
type Running struct {
	t       testing.TB
	updates <-chan podconfig.PodUpdate
	words   []string // received, but not yet compared by Want
}

// Run runs a source until the test ends.
func Run(t testing.TB, config *podconfig.PodConfig, source func(context.Context) error) *Running {
	t.Cleanup(config.Wait)
	testutil.Background(t, func(ctx context.Context) error {
		if err := source(ctx); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the source ended: %w", err)
		}
		return nil
	})
	return &Running{t: t, updates: config.Updates()}
}

// Next waits for the next change.
func (r *Running) Next() podconfig.PodUpdate {
	r.t.Helper()
	return testutil.Receive(r.t, r.updates, "no change comes after %q", r.words)
}

// Want waits for the next changes and compares them with words such as "ADD:1 REMOVE:2", where the numbers are UIDs.
func (r *Running) Want(what, words string) {
	r.t.Helper()
	for len(r.words) < len(strings.Fields(words)) {
		u := r.Next()
		for _, pod := range u.Pods {
			r.words = append(r.words, fmt.Sprintf("%s:%s", u.Op, pod.UID))
		}
	}
	if got := strings.Join(r.words, " "); got != words {
		r.t.Fatalf("%s: received %q, want %q", what, got, words)
	}
	r.words = nil
}
