package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

const own = "/proc/thread-self/ns/net"

func TestDoRunsInTheNamespace(t *testing.T) {
	requireRoot(t)
	pid, _ := startPod(t)
	h := Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	home := namespaceOf(t, own)
	err := h.Do(t.Context(), func() error {
		got, want := namespaceOf(t, own), podNamespace(t, pid)
		testutil.Assert(t, got == want, "f runs in %s, want %s", got, want)
		links, err := net.Interfaces()
		if err == nil && (len(links) != 1 || links[0].Name != "lo") {
			t.Errorf("f sees the interfaces %v, want a new namespace's lo", links)
		}
		return err
	})
	testutil.Must(t, err)
	testutil.Equal(t, namespaceOf(t, own), home, "the caller is now in")
}

func TestDoErrors(t *testing.T) {
	requireRoot(t)
	pid, _ := startPod(t)
	alive := Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	plain := filepath.Join(t.TempDir(), "plain")
	testutil.Must(t, os.WriteFile(plain, nil, 0o644))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	failure := errors.New("no")
	nothing := func() error { t.Error("f was called"); return nil }
	tests := map[string]struct {
		ctx  context.Context
		h    Handle
		f    func() error
		want error
	}{
		"f fails":         {t.Context(), alive, func() error { return failure }, failure},
		"ended context":   {ended, alive, nothing, context.Canceled},
		"missing file":    {t.Context(), Open(plain + "-missing"), nothing, errdefs.ErrNotFound},
		"not a namespace": {t.Context(), Open(plain), nothing, errdefs.ErrFailedPrecondition},
		"directory":       {t.Context(), Open("/"), nothing, errdefs.ErrFailedPrecondition},
		"other namespace": {t.Context(), Open(fmt.Sprintf("/proc/%d/ns/mnt", pid)), nothing,
			errdefs.ErrFailedPrecondition},
		"zero value": {t.Context(), Handle{}, nothing, errdefs.ErrNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.h.Do(tt.ctx, tt.f)
			testutil.Assert(t, errors.Is(err, tt.want), "error is %v, want %v", err, tt.want)
		})
	}
}

func TestDoSurvivesPanicAndGoexit(t *testing.T) {
	requireRoot(t)
	pid, _ := startPod(t)
	h := Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	func() {
		defer func() {
			r := recover()
			testutil.Assert(t, r != nil && strings.Contains(fmt.Sprint(r), "boom"),
				"the caller of Do recovered %v, want the panic of f", r)
		}()
		h.Do(t.Context(), func() error { panic("boom") })
	}()
	err := h.Do(t.Context(), func() error { runtime.Goexit(); return nil })
	testutil.Assert(t, err != nil, "Do returned nil although f never finished")
	testutil.Until(t, "no thread left in the namespace", func() bool { return threadsIn(t, podNamespace(t, pid)) == 0 })
}

func TestDoNests(t *testing.T) {
	requireRoot(t)
	a, _ := startPod(t)
	b, _ := startPod(t)
	outer, inner := Open(fmt.Sprintf("/proc/%d/ns/net", a)), Open(fmt.Sprintf("/proc/%d/ns/net", b))
	err := outer.Do(t.Context(), func() error {
		err := inner.Do(t.Context(), func() error {
			testutil.Equal(t, namespaceOf(t, own), podNamespace(t, b), "the inner f runs in")
			return nil
		})
		testutil.Equal(t, namespaceOf(t, own), podNamespace(t, a), "after the inner call f runs in")
		return err
	})
	testutil.Must(t, err)
}

func TestDoLeaksNothing(t *testing.T) {
	requireRoot(t)
	var handles []Handle
	var namespaces []string
	for range 2 {
		pid, _ := startPod(t)
		handles = append(handles, Open(fmt.Sprintf("/proc/%d/ns/net", pid)))
		namespaces = append(namespaces, podNamespace(t, pid))
	}
	round := func() {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				err := handles[i%2].Do(t.Context(), func() error {
					if got := namespaceOf(t, own); got != namespaces[i%2] {
						return fmt.Errorf("in %s, want %s", got, namespaces[i%2])
					}
					return nil
				})
				testutil.Check(t, err)
			})
		}
		wg.Wait()
	}
	round() // the first one starts the threads that the later ones reuse
	goroutines, files, threads := runtime.NumGoroutine(), count(t, "/proc/self/fd/*"), count(t, "/proc/self/task/*")
	for range 50 {
		round()
	}
	for _, ns := range namespaces {
		testutil.Equal(t, threadsIn(t, ns), 0, "threads are left in a pod's namespace")
	}
	testutil.Until(t, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	n := count(t, "/proc/self/fd/*")
	testutil.Assert(t, n <= files, "%d open files, %d before", n, files)
	// There were 800 calls on 16 goroutines, so one leaked thread per call would show.
	n = count(t, "/proc/self/task/*")
	testutil.Assert(t, n <= threads+32, "%d threads, %d before", n, threads)
}

// A thread that cannot go back must end with its goroutine, or other goroutines would run in the pod's namespace.
func TestThreadWithoutAWayBackEnds(t *testing.T) {
	requireRoot(t)
	pid, _ := startPod(t)
	h := Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	for range 10 {
		testutil.Must(t, h.Do(t.Context(), dropMountRights))
	}
	testutil.Until(t, "no thread left in the namespace", func() bool { return threadsIn(t, podNamespace(t, pid)) == 0 })
	home := namespaceOf(t, "/proc/self/ns/net")
	for range 100 {
		done := make(chan string)
		go func() { ns, _ := os.Readlink(own); done <- ns }()
		got := <-done
		testutil.Require(t, got == home, "a goroutine runs in %s, want %s", got, home)
	}
}

func count(t *testing.T, pattern string) int {
	t.Helper()
	found, err := filepath.Glob(pattern)
	testutil.Must(t, err)
	return len(found)
}
