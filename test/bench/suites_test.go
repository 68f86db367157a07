package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A suite fails if something failed on criadapter. A failure on a peer is only printed beside the figures.
func TestSuiteIsComparedAndReported(t *testing.T) {
	t.Chdir(t.TempDir())
	one := &suite{Name: "suite v1", What: "one call, ms", Failed: map[string][]string{nameContainerd: {"it was slow"}},
		samples: 1}
	for name, took := range map[string]time.Duration{
		nameCriadapter: 30 * time.Millisecond, nameCRIDockerd: 100 * time.Millisecond,
	} {
		one.times.clock(name)("StopPod", took)
	}
	one.conclude()
	all := suites{Engine: "29", Suites: []*suite{one}}
	var out bytes.Buffer
	testutil.Must(t, all.report(&out))
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"suite v1: one call, ms", "StopPod 30 100 – 0.3 –", "containerd failed: it was slow",
	} {
		testutil.Assert(t, strings.Contains(got, want), "no %q in: %s", want, got)
	}
	_, err := os.Stat("build/bench/suites-29.json")
	testutil.Must(t, err)
	one.Failed[nameCriadapter] = []string{"no pod", "no image"}
	err = all.report(&out)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "2 failures, the first: no pod"), "error %v", err)
}

// A failed run adds no times. So one index means different turns on the two servers, and they have no ratio.
func TestFailedRunLeavesNoRatio(t *testing.T) {
	one := &suite{samples: 2}
	for _, name := range []string{nameCriadapter, nameCRIDockerd, nameCriadapter, nameContainerd, nameContainerd} {
		one.times.clock(name)("StopPod", time.Second)
	}
	one.conclude()
	ratios := one.Rows[0].Ratios
	testutil.Assert(t, len(ratios) == 1 && ratios[nameContainerd] == 1, "ratios %v", ratios)
}

// leaving is a server on which a suite left pods. It cannot remove one of them.
type leaving struct {
	runtimeapi.RuntimeServiceClient
	pods []string
}

func (l *leaving) ListPodSandbox(
	context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption,
) (*runtimeapi.ListPodSandboxResponse, error) {
	response := &runtimeapi.ListPodSandboxResponse{}
	for _, id := range l.pods {
		response.Items = append(response.Items, &runtimeapi.PodSandbox{Id: id})
	}
	return response, nil
}

func (l *leaving) StopPodSandbox(
	_ context.Context, request *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption,
) (*runtimeapi.StopPodSandboxResponse, error) {
	if request.GetPodSandboxId() == "stuck" {
		return nil, errors.New("it hangs")
	}
	return nil, nil
}

func (l *leaving) RemovePodSandbox(
	_ context.Context, request *runtimeapi.RemovePodSandboxRequest, _ ...grpc.CallOption,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	l.pods = slices.DeleteFunc(l.pods, func(id string) bool { return id == request.GetPodSandboxId() })
	return nil, nil
}

// removeLeft keeps the pods of other parts. It removes the pods of the suite, so that the next turn does not report
// them again.
func TestLeftPodsAreRemoved(t *testing.T) {
	server := &leaving{pods: []string{"crowd", "left", "stuck"}}
	s := &criServer{runtime: server}
	reasons, err := s.removeLeft(t.Context(), []string{"crowd"})
	testutil.Must(t, err)
	testutil.Assert(t, len(reasons) == 2 && strings.Contains(reasons[1], "it hangs"), "reasons %q", reasons)
	testutil.Assert(t, slices.Equal(server.pods, []string{"crowd", "stuck"}), "pods %q", server.pods)
}

// containerd-stress always reports 0 failures in its result. Only its log has the failures.
func TestStressIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stress")
	const script = `#!/bin/sh
echo 'time=1 level=error msg="running container 0-7" error="no engine"' >&2
echo 'E1129 "PodSandboxStatus failed"' >&2
echo '{"failures":0,"secondsPerContainer":0.25}'
`
	testutil.Must(t, os.WriteFile(path, []byte(script), 0o755))
	perPod, failed, err := runStress(t.Context(), path, "unix:///no", 1, time.Second)
	testutil.Must(t, err)
	testutil.Equal(t, perPod, 250*time.Millisecond, "time per pod")
	testutil.Assert(t, len(failed) == 1 && strings.Contains(failed[0], "no engine"), "failures %q", failed)
}

// A benchmark of critest that fails writes no file. Without a failure, each file must exist and have all lives.
func TestCritestIsRead(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, critestFiles()[0]),
		`{"operationsNames": ["CreatePod", "StopPod"], "datapoints": [{"operationsDurationsNs": [7, 8]}]}`)
	told := map[string]time.Duration{}
	tell := func(call string, took time.Duration) { told[call] = took }
	testutil.Must(t, tellCritest(dir, 1, true, tell))
	testutil.Assert(t, told["CreatePod"] == 7 && told["StopPod"] == 8, "told %v", told)
	err := tellCritest(dir, 1, false, tell)
	testutil.Assert(t, os.IsNotExist(err), "without failures: %v", err)
	err = tellCritest(dir, 2, false, tell)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "1 lives, want 2"), "a life is missing: %v", err)
	testutil.WriteFile(t, filepath.Join(dir, critestFiles()[0]),
		`{"operationsNames": ["StopPod"], "datapoints": [{"operationsDurationsNs": [7, 8]}]}`)
	err = tellCritest(dir, 1, true, tell)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "2 times"), "a time without a name: %v", err)
}
