package nodeapi

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"github.com/criadapter/criadapter/internal/testutil"
)

const stamp = "2026-05-01T12:00:00.000000001Z"

// logOf writes the logs of the current and the previous attempt of container c.
func logOf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "1.log")
	writeFile(t, path, []byte("2026-05-01T11:00:00Z stdout F old\n"+stamp+" stderr F wrong\n"+stamp+" stdout F new\n"))
	writeFile(t, path+".before", []byte(stamp+" stdout F before\n"))
	return path
}

func TestContainerLogs(t *testing.T) {
	r := &runtime{log: logOf(t)}
	a := startAPI(t, r, nil)
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"pod/c", 200, "old\nwrong\nnew\n"},
		{"pod/c?previous=true", 200, "before\n"},
		{"pod/c?tailLines=1", 200, "new\n"},
		{"pod/c?tailLines=0", 200, ""},
		{"pod/c?limitBytes=5", 200, "old\nw"},
		{"pod/c?stream=Stdout", 200, "old\nnew\n"},
		{"pod/c?stream=Stderr&timestamps=true", 200, stamp + " wrong\n"},
		{"pod/c?stream=All&sinceTime=2026-05-01T11:30:00Z", 200, "wrong\nnew\n"},
		{"pod/c?sinceSeconds=10", 200, ""},
		{"pod/c?follow=false&timestamps=0&tailLines=", 200, "old\nwrong\nnew\n"},

		{"nobody/c", 404, "pod \"nobody\" does not exist\n"},
		{"pod/nothing", 404, "container \"nothing\" not found in pod \"pod\"\n"},
		{"pod/pulling", 400,
			"container \"pulling\" in pod \"pod\" is waiting to start: trying and failing to pull image\n"},
		{"pod/new", 400, "container \"new\" in pod \"pod\" is not available\n"},
		{"pod/ended?previous=true", 400, "previous terminated container \"ended\" in pod \"pod\" not found\n"},
		{"pod/removed", 400,
			"unable to retrieve container logs for docker://r1: the runtime does not have it any more\n"},
		{"pod/lost", 400, "container \"lost\" in pod \"pod\" is terminated\n"},
		{"gone/c", 400, "unable to retrieve container logs for docker://c1: the runtime does not have it any more\n"},
		{"pod/c?follow=perhaps", 400, "follow: \"perhaps\" is neither true nor false\n"},
		{"pod/c?tailLines=x", 400, "tailLines: \"x\" is not a number\n"},
		{"pod/c?tailLines=-1", 422, "tailLines: must be at least 0, is -1\n"},
		{"pod/c?limitBytes=0", 422, "limitBytes: must be at least 1, is 0\n"},
		{"pod/c?sinceSeconds=0", 422, "sinceSeconds: must be at least 1, is 0\n"},
		{"pod/c?sinceSeconds=1&sinceTime=" + stamp, 422,
			"sinceTime: at most one of `sinceTime` or `sinceSeconds` may be specified\n"},
		{"pod/c?sinceTime=yesterday", 400, "sinceTime: \"yesterday\" is not a time like 2006-01-02T15:04:05Z\n"},
		{"pod/c?stream=Both", 422, "stream: \"Both\" is not one of All, Stdout and Stderr\n"},
		{"pod/c?stream=Stdout&tailLines=1", 422, "tailLines: cannot be set together with stream Stdout\n"},
	} {
		if code, body := a.get("/containerLogs/ns/" + c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
	code, _ := a.get("/containerLogs/other/pod/c")
	testutil.Assert(t, code == http.StatusNotFound, "another namespace: %d", code)
	r.log += "x"
	code, body := a.get("/containerLogs/ns/pod/c")
	testutil.Assert(t, code == http.StatusNotFound && strings.Contains(body, "no log"), "no file: %d %s", code, body)
	r.failing = status.Error(codes.Unavailable, "away")
	code, body = a.get("/containerLogs/ns/pod/c")
	testutil.Assert(t, code == http.StatusServiceUnavailable && strings.Contains(body, "away"),
		"the runtime is away: %d %s", code, body)
}

// TestLogComesBeforeItsEnd: an API server that passes a log on by WebSocket loses a piece that arrives together with
// the end.
func TestLogComesBeforeItsEnd(t *testing.T) {
	a := startAPI(t, &runtime{log: logOf(t)}, nil)
	response, err := a.client.Get("https://" + a.Address() + "/containerLogs/ns/pod/c")
	testutil.Must(t, err)
	defer response.Body.Close()
	text := make([]byte, 100)
	n, err := response.Body.Read(text)
	testutil.Assert(t, err == nil && string(text[:n]) == "old\nwrong\nnew\n", "%q, %v", text[:n], err)
}

func TestWaitingToStart(t *testing.T) {
	for want, state := range map[string]v1.ContainerState{
		"is waiting to start - no logs yet": {},
		"is waiting to start: ContainerCreating": {
			Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		"is waiting to start: image can't be pulled": {
			Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull"}},
		"is waiting to start: trying and failing to pull image": {
			Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		"is terminated": {Terminated: &v1.ContainerStateTerminated{}},
	} {
		pod := &v1.Pod{Status: v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "c", State: state}}}}
		id, err := logContainer(pod, "c", false)
		testutil.Assert(t, err != nil && strings.HasSuffix(err.Error(), want), "%s, %v; want %s", id, err, want)
	}
	// The last attempt of a container in its back-off is both the current and the previous one.
	crashed := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "x://1"}},
	}}}}
	for _, previous := range []bool{false, true} {
		id, err := logContainer(crashed, "c", previous)
		testutil.Assert(t, id == "x://1" && err == nil, "previous %v: %s, %v", previous, id, err)
	}
}

func TestLogsAreFollowedToTheEnd(t *testing.T) {
	r := &runtime{log: logOf(t)}
	var ended atomic.Bool
	a := startAPI(t, r, func(o *APIOptions) {
		o.Reads.Pods = func() []*v1.Pod {
			pods := somePods()
			if ended.Load() {
				pods[1].Status.ContainerStatuses[0].State = v1.ContainerState{
					Terminated: &v1.ContainerStateTerminated{ContainerID: "docker://c1"}}
			}
			return pods
		}
	})
	answer, err := a.client.Get("https://" + a.Address() + "/containerLogs/ns/pod/c?follow=true&tailLines=1")
	testutil.Must(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		t.Helper()
		testutil.Require(t, lines.Scan(), "the log ended with %v", lines.Err())
		return lines.Text()
	}
	testutil.Equal(t, next(), "new", "first")
	testutil.AppendFile(t, r.log, stamp+" stdout F more\n")
	testutil.Equal(t, next(), "more", "the next line")
	ended.Store(true)
	testutil.AppendFile(t, r.log, stamp+" stdout F last\n")
	testutil.Equal(t, next(), "last", "at last")
	testutil.Assert(t, !lines.Scan() && lines.Err() == nil, "after the end: %q, %v", lines.Text(), lines.Err())
}

// TestFollowersThatLeave: a follower leaves nothing behind when the client leaves or the API ends.
func TestFollowersThatLeave(t *testing.T) {
	r := &runtime{log: logOf(t)}
	a := startAPI(t, r, nil)
	settled := a.idle()
	ctx, cancel := context.WithCancel(t.Context())
	follow := func() {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"https://"+a.Address()+"/containerLogs/ns/pod/c?follow=1", nil)
		testutil.Must(t, err)
		answer, err := a.client.Do(request)
		testutil.Must(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		testutil.Require(t, bufio.NewScanner(answer.Body).Scan(), "no line")
	}
	for range 10 {
		follow()
	}
	cancel()
	settled()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	follow()
	begun := time.Now()
	a.stop()
	took := time.Since(begun)
	testutil.Assert(t, took <= stopTimeout/2, "the end took %v", took)
}

func TestRun(t *testing.T) {
	r := &runtime{execSync: func(ctx context.Context, cmd []string) (stdout, stderr []byte, err error) {
		switch cmd[0] {
		case "false":
			return []byte("so far\n"), []byte("wrong\n"), utilexec.CodeExitError{Code: 3, Err: errors.New("exit 3")}
		case "away":
			return nil, nil, status.Error(codes.Unavailable, "away")
		}
		return []byte(strings.Join(cmd, ",") + "\n"), []byte("err\n"), nil
	}}
	a := startAPI(t, r, nil)
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/ns/pod/c?cmd=" + url.QueryEscape("echo a  b"), 200, "echo,a,b\nerr\n"},
		{"/ns/pod/u/c?command=echo&command=" + url.QueryEscape("a b"), 200, "echo,a b\nerr\n"},
		{"/ns/pod/c?cmd=false", 500, "so far\nwrong\ncommand [\"false\"] exited with 3\n"},
		{"/ns/pod/c?cmd=away", 503, "rpc error: code = Unavailable desc = away\n"},
		{"/ns/pod/c", 400, "query parameter \"cmd\" is required\n"},
		{"/ns/nobody/c?cmd=x", 404, "pod \"nobody\" does not exist\n"},
		{"/ns/pod/another/c?cmd=x", 404, "pod \"pod\" does not exist\n"},
		{"/ns/pod/ended?cmd=x", 404, "container not found (\"ended\"): it does not run (Error)\n"},
	} {
		if code, body := a.do(a.client, http.MethodPost, "/run"+c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
	code, _ := a.get("/run/ns/pod/c?cmd=x")
	testutil.Assert(t, code == http.StatusMethodNotAllowed, "GET: %d", code)
}

func TestRunningPods(t *testing.T) {
	a := startAPI(t, &runtime{}, nil)
	code, body := a.get("/runningpods/")
	for _, part := range []string{`"kind":"PodList"`, `"uid":"u"`, `{"name":"c","image":"i"`, `"uid":"other"`} {
		testutil.Assert(t, code == http.StatusOK && strings.Contains(body, part) &&
			strings.Count(body, `"metadata":{"name":"pod"`) == 1, "%d %s lacks %s", code, body, part)
	}
}
