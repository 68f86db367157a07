package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// mobyEngine is the engine of the same release as the tests.
	mobyEngine = "29-containerd"
	// mobyExpected lists the tests that do not pass with runc, each with its cause.
	mobyExpected = "test/ocisuite/expected-moby.yaml"
	// mobyExecRoot is the directory of the engine's sockets. Tests with an engine of their own look for containerd
	// there.
	mobyExecRoot = "/run/docker"
	// mobyOldest is the oldest version of the API that the tests use.
	mobyOldest = "1.24"
	// mobyTotal is the number of the engine's tests: 428 that run, and 5 that skip themselves. Each subtest counts as a
	// test.
	mobyTotal = 433
	// mobyEnd bounds the end of an engine.
	mobyEnd = time.Minute
)

// compareMoby runs the engine's own tests of containers on two engines. The second engine finds criadapter-oci under
// the name runc, and so do the engines that its tests start. compareMoby fails as conclude does. It also fails if a
// test with runc has another outcome than mobyExpected lists.
func compareMoby(ctx context.Context, suite string, env rigenv.Env, behind, reportDir string) error {
	expected, err := report.ReadExpected(mobyExpected)
	if err != nil {
		return err
	}
	runc := cmp.Or(env.RuntimeWrapper, filepath.Join(filepath.Dir(env.Dockerd), "runc"))
	// The engines inherit both variables.
	if err := errors.Join(os.Setenv(runcVar, runc), os.Setenv("DOCKER_MIN_API_VERSION", mobyOldest)); err != nil {
		return err
	}
	alone, err := onMobyEngine(ctx, suite, env, "", filepath.Join(reportDir, "moby.runc"))
	if err != nil {
		return err
	}
	verdict := report.Judge("the engine's tests with runc", specsOf(alone), expected)
	fmt.Print(verdict)
	notes := ocinote.Dir(os.Getenv(notesVar))
	before, err := notes.List()
	if err != nil {
		return err
	}
	noted, err := onMobyEngine(ctx, suite, env, filepath.Dir(behind), filepath.Join(reportDir, "moby.noted"))
	if err != nil {
		return err
	}
	after, err := notes.List()
	if err == nil && len(after) <= len(before) {
		err = errors.New("no container of the engine ran behind criadapter-oci")
	}
	return errors.Join(err, limitFlaky(noted), verdict.Err(mobyTotal),
		conclude("the engine's tests", passes(alone), passes(noted)))
}

// limitFlaky fails if more tests passed only in their second run than chance explains.
func limitFlaky(tests []results.Test) error {
	if count := results.CountOf(tests); count.TooFlaky(false) {
		return fmt.Errorf("behind criadapter-oci %d of the engine's tests passed only the second time: chance does "+
			"not explain so many", count.Flaky)
	}
	return nil
}

// onMobyEngine runs the engine's tests on a new engine. path is a directory that comes first on the engine's PATH,
// empty for none.
func onMobyEngine(
	ctx context.Context, suite string, env rigenv.Env, path, log string,
) (tests []results.Test, err error) {
	dir, err := os.MkdirTemp(env.WorkDir, "m")
	if err != nil {
		return nil, err
	}
	tested, err := engine.Launch(ctx, engine.Options{
		Dir: filepath.Join(dir, "e"), Env: env, Path: path, Config: map[string]any{
			"exec-root": mobyExecRoot, "cgroup-parent": "/" + env.Cgroup(), "bridge": "", "iptables": true,
			"ip6tables": true, "ip-forward": true,
		}})
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mobyEnd)
		defer cancel()
		err = errors.Join(err, tested.Close(ctx))
	}()
	if err := loadMobyImages(ctx, tested.Host(), env); err != nil {
		return nil, err
	}
	return mobyRun{dir: suite, log: log, environ: append(os.Environ(), "PATH="+tested.SearchPath(),
		"DOCKER_HOST="+tested.Host(), "DOCKER_GRAPHDRIVER=overlayfs", "DOCKER_INTEGRATION_DAEMON_DEST="+dir,
		"TMPDIR="+dir)}.all(ctx)
}

// specsOf converts tests for the comparison with the list.
func specsOf(tests []results.Test) []report.Spec {
	outcomes := map[results.Outcome]report.Outcome{
		results.Pass: report.Passed, results.Flaky: report.Passed, results.Skip: report.Skipped,
		results.Fail: report.Failed,
	}
	var specs []report.Spec
	for _, test := range tests {
		specs = append(specs, report.Spec{Name: test.Name, Outcome: outcomes[test.Outcome]})
	}
	return specs
}

// passes returns true for each test that passed, at once or the second time, and false for each test that failed. It
// leaves out skipped tests.
func passes(tests []results.Test) map[string]bool {
	passed := map[string]bool{}
	for _, test := range tests {
		if test.Outcome != results.Skip {
			passed[test.Name] = test.Outcome != results.Fail
		}
	}
	return passed
}
