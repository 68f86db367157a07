// Command ocisuite runs the validation programs of opencontainers/runtime-tools, runc's own tests, and the engine's own
// tests of containers. Each suite runs twice: with runc, and with runc behind criadapter-oci, with an OCI note that
// changes nothing. The command fails if a test passes with runc, but not behind criadapter-oci.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// programTimeout bounds one validation program.
const programTimeout = 5 * time.Minute

func main() {
	if filepath.Base(os.Args[0]) == notedName {
		os.Exit(noted(os.Args[1:]))
	}
	report := flag.String("report", "build/ocisuite", "the `directory` for the output of each program")
	set := flag.String("set", "", "run one suite only, "+setValidation+", "+setBats+" or "+setMoby)
	flag.Parse()
	program.Main("ocisuite", func(ctx context.Context) error { return run(ctx, *report, *set) })
}

// The suites.
const (
	setValidation = "validation"
	setBats       = "bats"
	setMoby       = "moby"
)

func run(ctx context.Context, reportDir, set string) error {
	if !slices.Contains([]string{"", setValidation, setBats, setMoby}, set) {
		return fmt.Errorf("there is no suite %q", set)
	}
	runs := func(suite string) bool { return set == "" || set == suite }
	built, err := buildSuites(ctx, runs)
	if err != nil {
		return err
	}
	env, err := rigenv.FromEnviron(os.Getenv)
	if err != nil {
		var onEngine func(string) (string, error)
		if runs(setMoby) {
			onEngine = func(string) (string, error) { return "ENGINE=" + mobyEngine, nil }
		}
		return program.Again(ctx, onEngine, os.Args[1:]...)
	}
	if err := os.MkdirAll(reportDir, 0o755); err != nil {
		return err
	}
	engines := cgroups.Find(engineCgroup)
	environ, behind, err := putBehind(env)
	if err != nil {
		return err
	}
	if runs(setValidation) {
		err = compareValidation(ctx, built[setValidation], environ, env, behind, reportDir)
	}
	if runs(setBats) {
		err = errors.Join(err, compareBats(ctx, built[setBats], environ, behind, reportDir))
	}
	if runs(setMoby) {
		err = errors.Join(err, compareMoby(ctx, built[setMoby], env, behind, reportDir))
	}
	return errors.Join(err, removeCgroups(engines))
}

// buildSuites returns the directories of the suites that run, by their names.
func buildSuites(ctx context.Context, runs func(suite string) bool) (map[string]string, error) {
	if err := installTools(ctx); err != nil {
		return nil, err
	}
	built := map[string]string{}
	for suite, build := range map[string]func(context.Context) (string, error){
		setValidation: buildSuite, setBats: buildBats, setMoby: buildMoby,
	} {
		if !runs(suite) {
			continue
		}
		dir, err := build(ctx)
		if err != nil {
			return nil, err
		}
		built[suite] = dir
	}
	return built, nil
}

// putBehind calls coverCgroups, and links this program under the name notedName. It returns the environment for the
// suites and the link's path.
func putBehind(env rigenv.Env) (environ []string, behind string, err error) {
	dir, err := os.MkdirTemp(env.WorkDir, "ocisuite")
	if err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	if err := coverCgroups(dir); err != nil {
		return nil, "", err
	}
	behind = filepath.Join(dir, notedName)
	err = errors.Join(os.Setenv(programVar, env.OCIRuntime), os.Setenv(notesVar, filepath.Join(dir, "notes")),
		os.Symlink(self, behind))
	return os.Environ(), behind, err
}

// compareBats runs runc's suite with both runtimes.
func compareBats(ctx context.Context, suite string, environ []string, behind, reportDir string) error {
	runc := filepath.Join(suite, "runc")
	alone, err := runBats(ctx, suite, append(environ, "RUNC="+runc), filepath.Join(reportDir, "bats.runc"))
	if err != nil {
		return err
	}
	noted, err := runBats(ctx, suite, append(environ, "RUNC="+behind, runcVar+"="+runc),
		filepath.Join(reportDir, "bats.noted"))
	if err != nil {
		return err
	}
	return conclude("runc's tests", alone, noted)
}

// conclude prints how many tests of a suite pass with runc, and how many behind criadapter-oci. It fails if a test
// passes with runc, but not behind criadapter-oci, or if a test that ran only there fails. It also fails if no test
// passes with runc.
func conclude(suite string, alone, noted map[string]bool) error {
	passed, passedBehind, worse, failed := 0, 0, []string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		passed, passedBehind = passed+count(alone[name]), passedBehind+count(noted[name])
		if alone[name] && !noted[name] {
			worse = append(worse, name)
		}
	}
	fmt.Printf("%s: %d in all, %d pass with runc, %d pass behind criadapter-oci\n", suite, len(alone), passed,
		passedBehind)
	for _, name := range slices.Sorted(maps.Keys(noted)) {
		if _, ran := alone[name]; !ran && !noted[name] {
			failed = append(failed, name)
		}
	}
	var err error
	if len(worse) > 0 {
		err = fmt.Errorf("%s that pass with runc, but not behind criadapter-oci: %q", suite, worse)
	}
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%s that ran only behind criadapter-oci, and failed: %q", suite, failed))
	}
	if passed == 0 {
		err = errors.Join(err, fmt.Errorf("%s: nothing passes", suite))
	}
	return err
}

// compareValidation runs all validation programs with both runtimes.
func compareValidation(
	ctx context.Context, suite string, environ []string, env rigenv.Env, behind, reportDir string,
) error {
	programs, err := validationPrograms(suite)
	if err != nil {
		return err
	}
	runc := env.RuntimeWrapper
	if runc == "" {
		if runc, err = exec.LookPath("runc"); err != nil {
			return err
		}
	}
	environ = append(environ, runcVar+"="+runc)
	alone, noted := map[string]bool{}, map[string]bool{}
	for _, path := range programs {
		name := filepath.Base(path)
		alone[name] = validate(ctx, path, append(environ, "RUNTIME="+runc), filepath.Join(reportDir, name+".runc"))
		noted[name] = validate(ctx, path, append(environ, "RUNTIME="+behind), filepath.Join(reportDir, name+".noted"))
		fmt.Printf("%-40s runc %-5t behind criadapter-oci %t\n", name, alone[name], noted[name])
	}
	return errors.Join(ctx.Err(), conclude("validation programs", alone, noted))
}

func count(passed bool) int {
	if passed {
		return 1
	}
	return 0
}

// validationPrograms returns the suite's programs: all executable files but insideProgram.
func validationPrograms(suite string) ([]string, error) {
	entries, err := os.ReadDir(suite)
	var paths []string
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr != nil && !errors.Is(infoErr, fs.ErrNotExist) {
			return nil, infoErr
		}
		if infoErr == nil && info.Mode().Perm()&0o111 != 0 && entry.Name() != insideProgram {
			paths = append(paths, filepath.Join(suite, entry.Name()))
		}
	}
	return paths, err
}

// validate runs one program and keeps its output. The program passes if it exits with 0 and its output has no "not ok",
// a failed test in the Test Anything Protocol.
func validate(ctx context.Context, path string, environ []string, report string) bool {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Dir(path), environ, time.Second
	output, err := cmd.CombinedOutput()
	if err := os.WriteFile(report, output, 0o644); err != nil {
		return false
	}
	return err == nil && !bytes.HasPrefix(output, []byte("not ok")) && !bytes.Contains(output, []byte("\nnot ok"))
}
