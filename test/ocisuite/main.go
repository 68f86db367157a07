// Command ocisuite runs the validation programs of opencontainers/runtime-tools twice: with runc, and with runc behind
// criadapter-oci, with a note that changes nothing. It fails if a program passes with runc alone.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// programTimeout bounds one validation program.
const programTimeout = time.Minute

func main() {
	if filepath.Base(os.Args[0]) == notedName {
		os.Exit(noted(os.Args[1:]))
	}
	report := flag.String("report", "build/ocisuite", "the `directory` for the output of each program")
	flag.Parse()
	program.Main("ocisuite", func(ctx context.Context) error { return run(ctx, *report) })
}

func run(ctx context.Context, reportDir string) error {
	suite, err := buildSuite(ctx)
	if err != nil {
		return err
	}
	env, err := rigenv.FromEnviron(os.Getenv)
	if err != nil {
		return program.Again(ctx, nil, os.Args[1:]...)
	}
	runc := env.RuntimeWrapper
	if runc == "" {
		if runc, err = exec.LookPath("runc"); err != nil {
			return err
		}
	}
	return compare(ctx, suite, runc, env, reportDir)
}

// compare runs all programs with both runtimes.
func compare(ctx context.Context, suite, runc string, env rigenv.Env, reportDir string) error {
	dir, err := os.MkdirTemp(env.WorkDir, "ocisuite")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	behind := filepath.Join(dir, notedName)
	if err := errors.Join(os.Symlink(self, behind), os.MkdirAll(reportDir, 0o755)); err != nil {
		return err
	}
	environ := append(os.Environ(), programVar+"="+env.OCIRuntime, notesVar+"="+filepath.Join(dir, "notes"),
		runcVar+"="+runc)
	programs, err := validationPrograms(suite)
	if err != nil {
		return err
	}
	passed, passedBehind, worse := 0, 0, []string{}
	for _, path := range programs {
		name := filepath.Base(path)
		alone := validate(ctx, path, append(environ, "RUNTIME="+runc), filepath.Join(reportDir, name+".runc"))
		noted := validate(ctx, path, append(environ, "RUNTIME="+behind), filepath.Join(reportDir, name+".noted"))
		fmt.Printf("%-40s runc %-5t behind criadapter-oci %t\n", name, alone, noted)
		passed, passedBehind = passed+count(alone), passedBehind+count(noted)
		if alone && !noted {
			worse = append(worse, name)
		}
	}
	fmt.Printf("ocisuite: of %d programs %d pass with runc, %d behind criadapter-oci; output in %s\n", len(programs),
		passed, passedBehind, reportDir)
	if len(worse) > 0 {
		return fmt.Errorf("%d pass with runc alone: %v", len(worse), worse)
	}
	return ctx.Err()
}

func count(passed bool) int {
	if passed {
		return 1
	}
	return 0
}

// validationPrograms returns the suite's programs, all executable files but the one for containers.
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

// validate runs one program and keeps its output. It passes if it ends with 0 and has no failed test, as the Test
// Anything Protocol has them.
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
