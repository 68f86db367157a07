package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A suite fails if something failed on criadapter. What failed on a peer is printed beside the figures.
func TestSuiteIsComparedAndReported(t *testing.T) {
	t.Chdir(t.TempDir())
	one := &suite{Name: "suite v1", What: "one call, ms", Failed: map[string][]string{nameContainerd: {"it was slow"}}}
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

// containerd-stress reports 0 failures in its result, whatever failed. Only its log has them.
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

// A benchmark of critest that fails writes no file. Without a failure, each file must exist.
func TestCritestIsRead(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, critestFiles()[0]),
		`{"operationsNames": ["CreatePod", "StopPod"], "datapoints": [{"operationsDurationsNs": [7, 8]}]}`)
	told := map[string]time.Duration{}
	tell := func(call string, took time.Duration) { told[call] = took }
	testutil.Must(t, tellCritest(dir, true, tell))
	testutil.Assert(t, told["CreatePod"] == 7 && told["StopPod"] == 8, "told %v", told)
	err := tellCritest(dir, false, tell)
	testutil.Assert(t, os.IsNotExist(err), "without failures: %v", err)
}
