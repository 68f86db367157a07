package testutil

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that notes how it failed, and whether it was ended.
type failing struct {
	testing.TB
	text  string
	ended bool
}

func (f *failing) Helper() {}

func (f *failing) Errorf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func (f *failing) Error(args ...any) { f.text = fmt.Sprint(args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.text, f.ended = fmt.Sprintf(format, args...), true
}

func (f *failing) Fatal(args ...any) { f.text, f.ended = fmt.Sprint(args...), true }

func passing(t testing.TB) {
	Equal(t, 1, 1, "n")
	Assert(t, true, "n")
	Require(t, true, "n")
	Must(t, nil, "n")
	Check(t, nil)
	FailsWith(t, fmt.Errorf("read: %w", io.EOF), io.EOF, "n")
}

func TestAssertions(t *testing.T) {
	failure := errors.New("no space")
	for want, fail := range map[string]func(testing.TB){
		"":                              passing,
		"container 2: got 1, want 3":    func(t testing.TB) { Equal(t, 1, 3, "container %d", 2) },
		`reason: got "a\n", want ""`:    func(t testing.TB) { Equal(t, "a\n", "", "reason") },
		"5 pods are left":               func(t testing.TB) { Assert(t, false, "%d pods are left", 5) },
		"5 pods are left, and it ends":  func(t testing.TB) { Require(t, false, "%d pods are left", 5) },
		"no space":                      func(t testing.TB) { Check(t, failure) },
		"save 2: the error is no space": func(t testing.TB) { Fails(t, failure, os.IsNotExist, "save %d", 2) },
		"save: the error is <nil>":      func(t testing.TB) { FailsWith(t, nil, os.ErrNotExist, "save") },
		"save: no space":                func(t testing.TB) { Check(t, failure, "save") },
		"save: no space, and it ends":   func(t testing.TB) { Must(t, failure, "save") },
	} {
		test := &failing{TB: t}
		if fail(test); test.ended {
			test.text += ", and it ends"
		}
		Equal(t, test.text, want, "failed with")
	}
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		Until(t, "a second is over", func() bool { return time.Since(begun) >= time.Second })
		if took := time.Since(begun); took > 1100*time.Millisecond {
			t.Errorf("noticed after %s", took)
		}
		for name, c := range map[string]struct {
			wait func(testing.TB)
			want string
		}{
			"an error": {func(t testing.TB) { Eventually(t, func() error { return errors.New("still 3") }) },
				"not within 10m0s: still 3"},
			"a name": {func(t testing.TB) {
				EventuallyWithin(t, time.Minute, "the pod", func() error { return errors.New("pending") })
			}, "the pod: not within 1m0s: pending"},
			"a condition": {func(t testing.TB) { Until(t, "it ends", func() bool { return false }) },
				"not within 10m0s: it ends"},
			"no time at all": {func(t testing.TB) { EventuallyWithin(t, 0, "once", func() error { return nil }) }, ""},
		} {
			test := &failing{TB: t}
			if c.wait(test); test.text != c.want {
				t.Errorf("%s: failed with %q, want %q", name, test.text, c.want)
			}
		}
	})
}

func TestNoMoreGoroutines(t *testing.T) {
	test := &failing{TB: t}
	release := make(chan struct{})
	check := NoMoreGoroutines(test)
	go func() { <-release }()
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	if check(); test.text != "" {
		t.Errorf("failed with %s", test.text)
	}
}

func TestLeftGoroutineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := &failing{TB: t}
		check := NoMoreGoroutines(test)
		release := make(chan struct{})
		for range 20 { // more than the goroutines of earlier tests that may end during the check
			go func() { <-release }()
		}
		if check(); !strings.Contains(test.text, "goroutine ") {
			t.Errorf("failed with %q, want the stacks", test.text)
		}
		close(release)
	})
}

func TestBuffer(t *testing.T) {
	var b Buffer
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { _, _ = io.WriteString(&b, "ab") })
		group.Go(func() { _ = b.String() })
	}
	group.Wait()
	if got := b.String(); got != strings.Repeat("ab", 10) {
		t.Errorf("got %q", got)
	}
}
