// Package podconfigtest runs a source of pods within a test, and waits for the changes and errors that come of it.
package podconfigtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/criadapter/criadapter/kubelet/podconfig"
)

// patience is how long anything is waited for.
const patience = 10 * time.Second

// Errors collects what a source reports. It is safe for concurrent use.
type Errors struct {
	mu   sync.Mutex
	all  []error
	more chan struct{}
}

// NewErrors makes a collection without errors.
func NewErrors() *Errors { return &Errors{more: make(chan struct{}, 100)} }

// Add is a source's Options.Problem.
func (e *Errors) Add(_ string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, err)
	e.more <- struct{}{}
}

// All returns the errors so far; a nil one is the end of the one before.
func (e *Errors) All() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Await waits for one more error, and returns it.
func (e *Errors) Await(t testing.TB) error {
	t.Helper()
	select {
	case <-e.more:
	case <-time.After(patience):
		t.Fatal("no error is reported")
	}
	all := e.All()
	return all[len(all)-1-len(e.more)]
}

// Running is a source that runs.
type Running struct {
	t       testing.TB
	updates <-chan podconfig.PodUpdate
	words   []string // received and not asked for
}

// Run runs a source as long as the test.
func Run(t testing.TB, config *podconfig.PodConfig, source func(context.Context) error) *Running {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := source(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the source ended: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
		config.Wait()
	})
	return &Running{t: t, updates: config.Updates()}
}

// Next waits for the next change.
func (r *Running) Next() podconfig.PodUpdate {
	r.t.Helper()
	select {
	case u := <-r.updates:
		return u
	case <-time.After(patience):
		r.t.Fatalf("nothing more comes than %q", r.words)
		return podconfig.PodUpdate{}
	}
}

// Want waits for the next changes, and says what they must be, as in "ADD:1 REMOVE:2", the numbers being UIDs.
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
