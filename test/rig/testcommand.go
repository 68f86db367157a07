package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// testCommand compiles the tests, runs them on the private engine and those for it on the installed one, and prints the
// verdict. It returns the exit code.
func testCommand(ctx context.Context, variant engine.Variant, opts testOptions) (code int, err error) {
	if opts.cached {
		if has, err := variant.Cached(); err != nil || !has {
			fmt.Printf("tests on %s skipped: it is not cached, run make engines once\n", variant.Name)
			return 0, err
		}
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return 1, err
	}
	skips, err := readSkips(root)
	if err != nil {
		return 1, err
	}
	s, err := newScratch()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()

	binaries, tests, err := compile(ctx, s.dir, opts)
	if err != nil {
		return 1, err
	}
	env, err := describe(ctx, s, variant)
	if err != nil {
		return 1, err
	}
	if env.Criadapter, err = buildCriadapter(ctx, s); err != nil {
		tests = append(tests, results.Test{Package: "build/criadapter", Outcome: results.Fail, Output: err.Error()})
	}
	for _, t := range tests {
		fmt.Printf("--- %s\n%s\n", t, strings.TrimRight(t.Output, "\n"))
	}
	if opts.private() && len(binaries) > 0 {
		got, err := testPrivate(ctx, s, env, opts, binaries)
		if err != nil {
			return 1, err
		}
		tests = append(tests, got...)
	}
	if opts.system() {
		got, err := testSystem(ctx, s, env, opts, binaries)
		if err != nil {
			return 1, err
		}
		tests = append(tests, got...)
	}
	if opts.bench != "" {
		return verdictOfBenchmarks(os.Stderr, tests), nil
	}
	if variant.CgroupV2 {
		tests = withoutControllers(os.Stdout, tests)
	}
	return verdict(os.Stdout, tests, skips, opts.everything()), nil
}

// withoutControllers takes out the tests that were skipped because they need control groups with other controllers than
// this engine's, and says how many they are.
func withoutControllers(w io.Writer, tests []results.Test) []results.Test {
	rest := slices.DeleteFunc(slices.Clone(tests), func(t results.Test) bool {
		return t.Outcome == results.Skip && rigenv.LackedControllers(t.Output)
	})
	if n := len(tests) - len(rest); n > 0 {
		fmt.Fprintf(w, "\n%d tests left out, for want of cgroup controllers that are not here\n", n)
	}
	return rest
}

// testPrivate runs the tests in namespaces with an engine of their own.
func testPrivate(ctx context.Context, s *scratch, env rigenv.Env, opts testOptions, binaries []testBinary) ([]results.Test, error) {
	tests, err := newTestPlan(ctx, s, opts, rigenv.KindPrivate)
	if err != nil {
		return nil, err
	}
	tests.Binaries = binaries
	p := plan{Env: env, Tests: &tests}
	if err := prepare(ctx, s, &p); err != nil {
		return nil, err
	}
	code, err := enter(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("the rig inside ended with exit code %d", code)
	}
	return readResults(tests.Results)
}

// testSystem runs the tests for the installed engine, if there are any among the packages.
func testSystem(ctx context.Context, s *scratch, env rigenv.Env, opts testOptions, binaries []testBinary) ([]results.Test, error) {
	binaries = slices.DeleteFunc(slices.Clone(binaries), func(b testBinary) bool { return !b.System })
	if len(binaries) == 0 {
		return nil, nil
	}
	tests, err := newTestPlan(ctx, s, opts, rigenv.KindSystem)
	if err != nil {
		return nil, err
	}
	tests.Binaries, tests.Parallel = binaries, 1
	env.Kind = rigenv.KindSystem
	if env.DockerHost = os.Getenv("DOCKER_HOST"); env.DockerHost == "" {
		env.DockerHost = "unix:///var/run/docker.sock"
	}
	if env.DockerRoot, err = engineRoot(ctx, env.DockerHost); err != nil {
		return nil, err
	}
	fmt.Println("On the installed engine:")
	if err := runTests(ctx, env, tests); err != nil {
		return nil, err
	}
	return readResults(tests.Results)
}

func newTestPlan(ctx context.Context, s *scratch, opts testOptions, kind rigenv.Kind) (testPlan, error) {
	// -n prints the path of the program, after compiling it if necessary.
	test2json, err := output(exec.CommandContext(ctx, "go", "tool", "-n", "test2json"))
	return testPlan{
		Args:      opts.args(kind),
		Test2JSON: strings.TrimSpace(test2json),
		Parallel:  opts.parallel,
		Timeout:   opts.timeout,
		Verbose:   opts.verbose,
		Again:     opts.everything(),
		Results:   s.path("results-" + string(kind) + ".json"),
	}, err
}

// engineRoot asks the installed engine for its data root.
func engineRoot(ctx context.Context, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		return "", fmt.Errorf("DOCKER_HOST=%s: only an engine on a unix socket is tested", host)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/info", nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", fmt.Errorf("the installed engine does not answer, start it (systemctl start docker): %w", err)
	}
	defer resp.Body.Close()
	var info struct{ DockerRootDir string }
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return "", fmt.Errorf("the installed engine's info: %w", err)
	}
	return info.DockerRootDir, nil
}

// verdict prints what is wrong with the outcomes, and as the last line the count. It returns the exit code.
func verdict(w io.Writer, tests []results.Test, skips *results.Skips, everything bool) int {
	count := results.CountOf(tests)
	code := 0
	complain := func(format string, args ...any) {
		code = 1
		fmt.Fprintf(w, format, args...)
	}
	fmt.Fprintln(w)
	for _, t := range tests {
		if t.Outcome == results.Fail {
			complain("failed: %s\n", t)
		}
		if t.Outcome == results.Flaky {
			fmt.Fprintf(w, "failed among the others, and passed alone: %s\n", t)
		}
	}
	for _, t := range skips.Unlisted(tests) {
		complain("skipped, and not in test/rig/skips.txt: %s\n%s\n", t, strings.TrimRight(t.Output, "\n"))
	}
	if everything {
		for _, key := range skips.Stale(tests) {
			fmt.Fprintf(w, "in test/rig/skips.txt, but not skipped: %s\n", key)
			if os.Getenv("CI") == "true" {
				code = 1
			}
		}
	}
	if count.Passed == 0 {
		complain("no test passed\n")
	}
	fmt.Fprintln(w, count)
	return code
}

// verdictOfBenchmarks is verdict for a run of benchmarks alone.
func verdictOfBenchmarks(w io.Writer, tests []results.Test) int {
	count := results.CountOf(tests)
	if count.Passed == 0 {
		fmt.Fprintln(w, "no benchmark ran")
	}
	if count.Failed > 0 || count.Passed == 0 {
		return 1
	}
	return 0
}
