package client

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

const stamp = "2026-05-01T12:00:00.000000001Z"

// logged makes a fake kubelet with one pod. It returns the path of the container's log, for attempt 1.
func logged(t *testing.T, content string) (*Client, *fakeKubelet, string) {
	t.Helper()
	pod := running("a", "web")
	pod.Status.ContainerStatuses[0].RestartCount = 1
	asked, fake := newFake(t, pod)
	fake.config.PodLogsDir = t.TempDir()
	path := filepath.Join(model.PodLogDirectory(fake.config.PodLogsDir, &pod), "main", "1.log")
	testutil.WriteFile(t, path, content)
	return asked, fake, path
}

func TestLogs(t *testing.T) {
	content := "2026-05-01T11:00:00Z stdout F old\n" + stamp + " stdout P be\n" + stamp + " stderr F error\n" + stamp +
		" stdout F gun\n" + stamp + " stdout F \n" +
		stamp + " stdout F:tag a b  c\n" + stamp + " stdout F not written to its e"
	since := time.Date(2026, 5, 1, 11, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		name           string
		opts           LogOptions
		stdout, stderr string
	}{
		{"all", LogOptions{Tail: -1}, "old\nbegun\n\na b  c\n", "error\n"},
		{"since", LogOptions{Tail: -1, Since: since}, "begun\n\na b  c\n", "error\n"},
		{"time", LogOptions{Tail: -1, Since: since, Timestamps: true},
			stamp + " begun\n" + stamp + " \n" + stamp + " a b  c\n", stamp + " error\n"},
		{"no lines", LogOptions{Tail: 0}, "", ""},
		{"more lines than there are", LogOptions{Tail: 100}, "old\nbegun\n\na b  c\n", "error\n"},
		{"three lines, the last of which is not complete", LogOptions{Tail: 3}, "\na b  c\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, _, _ := logged(t, content)
			var stdout, stderr bytes.Buffer
			c.opts.Stdout, c.opts.Stderr = &stdout, &stderr
			testutil.Must(t, asked.Logs(t.Context(), Ref{Name: "web"}, c.opts))
			testutil.Assert(t, stdout.String() == c.stdout && stderr.String() == c.stderr,
				"%q and %q, want %q and %q", stdout.String(), stderr.String(), c.stdout, c.stderr)
		})
	}
}

func TestFollowThroughARotationToTheEnd(t *testing.T) {
	asked, fake, path := logged(t, stamp+" stdout F one\n")
	out := &testutil.Buffer{}
	opts := LogOptions{Follow: true, Tail: -1, Stdout: out, Stderr: out}
	ended := testutil.Go(func() error { return asked.Logs(t.Context(), Ref{Name: "web"}, opts) })
	shows(t, out, "one\n")
	testutil.AppendFile(t, path, stamp+" stdout F tw")
	time.Sleep(150 * time.Millisecond)
	testutil.AppendFile(t, path, "o\n")
	shows(t, out, "two\n")
	// The kubelet renames the file. The runtime writes to the renamed file until it reopens its log. Then it makes a
	// new file.
	testutil.Must(t, os.Rename(path, path+".20260501-120000"))
	testutil.AppendFile(t, path+".20260501-120000", stamp+" stdout F three\n")
	testutil.WriteFile(t, path, stamp+" stdout F four\n")
	shows(t, out, "four\n")
	fake.change(func(f *fakeKubelet) {
		f.pods[0].Status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	})
	testutil.AppendFile(t, path, stamp+" stdout F last\n")
	testutil.Must(t, <-ended)
	got, want := out.String(), "one\ntwo\nthree\nfour\nlast\n"
	testutil.Assert(t, got == want, "got %q, want %q", got, want)
}

func TestFollowIsGivenUp(t *testing.T) {
	asked, fake, _ := logged(t, stamp+" stdout F one\n")
	fake.change(func(f *fakeKubelet) {})
	ctx, cancel := context.WithCancel(t.Context())
	out := &testutil.Buffer{}
	opts := LogOptions{Follow: true, Tail: -1, Stdout: out, Stderr: out}
	ended := testutil.Go(func() error { return asked.Logs(ctx, Ref{Name: "web"}, opts) })
	shows(t, out, "one\n")
	fake.change(func(f *fakeKubelet) { f.away = true }) // Logs goes on while the kubelet does not answer
	time.Sleep(1200 * time.Millisecond)
	select {
	case err := <-ended:
		t.Fatalf("Logs ended with %v", err)
	default:
	}
	cancel()
	testutil.Check(t, <-ended)
}

func TestWhichLog(t *testing.T) {
	asked, fake, path := logged(t, stamp+" stdout F now\n")
	testutil.WriteFile(t, filepath.Join(filepath.Dir(path), "0.log"), stamp+" stdout F before\n")
	read := func(opts LogOptions) (string, error) {
		var out bytes.Buffer
		opts.Tail, opts.Stdout, opts.Stderr = -1, &out, &out
		err := asked.Logs(t.Context(), Ref{Name: "web"}, opts)
		return out.String(), err
	}
	got, err := read(LogOptions{Previous: true, Follow: true})
	testutil.Assert(t, got == "before\n" && err == nil, "previous: %q, %v", got, err)
	testutil.Must(t, os.Remove(path))
	_, err = read(LogOptions{})
	testutil.Assert(t, errors.Is(err, errdefs.ErrNotFound) && strings.Contains(err.Error(), path), "removed: %v", err)
	fake.change(func(f *fakeKubelet) {
		f.pods[0].Status.ContainerStatuses[0] = v1.ContainerStatus{Name: "main", State: waiting("ImagePullBackOff")}
	})
	_, err = read(LogOptions{})
	testutil.Assert(t, errors.Is(err, errdefs.ErrFailedPrecondition) &&
		strings.Contains(err.Error(), "ImagePullBackOff"), "waiting: %v", err)
	_, err = read(LogOptions{Previous: true})
	testutil.Assert(t, errors.Is(err, errdefs.ErrNotFound), "previous of none: %v", err)
}

func TestBadLogLines(t *testing.T) {
	asked, _, _ := logged(t, "nonsense\n"+stamp+" stdout F good\n\n")
	var stdout, stderr bytes.Buffer
	testutil.Must(t, asked.Logs(t.Context(), Ref{Name: "web"}, LogOptions{Tail: -1, Stdout: &stdout, Stderr: &stderr}))
	testutil.Assert(t,
		stdout.String() == "good\n" && strings.Count(stderr.String(), "not a line of a container log") == 2,
		"%q and %q", stdout.String(), stderr.String())
}
