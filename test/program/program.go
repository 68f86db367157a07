// Package program has the common code of the commands of test/, for example to run inside the test rig.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/rig/engine"
)

// Main runs a command until it ends or is interrupted. It prints an error after the command's name and exits with 1.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Skipped reports whether the cache lacks parts of a command. It then prints that the command is skipped, and what to
// run once.
func Skipped(name string, missing []string, run string) bool {
	if len(missing) == 0 {
		return false
	}
	fmt.Printf("%s skipped: %s not cached, run %s once\n", name, strings.Join(missing, ", "), run)
	return true
}

// rigGrace is the time in which the rig must clean up after an interrupt.
const rigGrace = time.Minute

// Rig is the built program of test/rig. It is built because go run does not pass signals on.
type Rig struct{ path string }

// BuildRig builds the rig in dir.
func BuildRig(ctx context.Context, dir string) (Rig, error) {
	rig := Rig{filepath.Join(dir, "rig")}
	return rig, Go(ctx, "build", "-o", rig.path, "./test/rig")
}

// Command returns a run of the rig with these arguments. The terminal's interrupt reaches only this process. The rig
// gets one SIGTERM when ctx ends.
func (r Rig) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = rigGrace
	return cmd
}

// Exec runs a command inside the rig. environ is a further environment variable, NAME=value, or empty.
func (r Rig) Exec(ctx context.Context, environ string, command ...string) error {
	cmd := r.Command(ctx, append([]string{"exec"}, command...)...)
	if environ != "" {
		cmd.Env = append(os.Environ(), environ)
	}
	return cmd.Run()
}

// Again runs this program again inside the rig with these arguments. environ, if not nil, returns a further environment
// variable. It may build files in dir, which Again removes at the end.
func Again(ctx context.Context, environ func(dir string) (string, error), args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return InDir(func(dir string) error {
		variable := ""
		if environ != nil {
			if variable, err = environ(dir); err != nil {
				return err
			}
		}
		rig, err := BuildRig(ctx, dir)
		if err != nil {
			return err
		}
		return rig.Exec(ctx, variable, append([]string{self}, args...)...)
	})
}

// InDir calls f with a new directory, which it removes afterwards.
func InDir(f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "criadapter-"+filepath.Base(os.Args[0])+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

// Go runs the go command. Its output is in the error.
func Go(ctx context.Context, args ...string) error {
	_, err := Output(ctx, "", nil, "go", args...)
	return err
}

// BuildStatic compiles a command of this tree to a path, for machines and containers with other libraries.
func BuildStatic(ctx context.Context, path, pkg string) error {
	_, err := Output(ctx, "", []string{"CGO_ENABLED=0"}, "go", "build", "-o", path, pkg)
	return err
}

// Output runs a program in dir, the current directory if that is empty, with environ added to its environment. It
// returns the output without surrounding space. An error has the output, too.
func Output(ctx context.Context, dir string, environ []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// MissingEngine returns a text that names the engine in the variable ENGINE if it must be built first, else an empty
// text.
func MissingEngine() (string, error) {
	variant, err := engine.Named(os.Getenv("ENGINE"))
	if err != nil {
		return "", err
	}
	if has, err := variant.Cached(); err != nil || has {
		return "", err
	}
	return "the engine " + variant.Name, nil
}

// Undo calls functions, the last one first, and returns all their errors.
func Undo(steps []func() error) error {
	var errs []error
	for _, undo := range slices.Backward(steps) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// KeepFiles copies the files that match the patterns in dir to the directory to, which it makes.
func KeepFiles(to, dir string, patterns ...string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		errs = append(errs, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o644)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// WriteJSON writes a value to a file, and makes its directory.
func WriteJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// ReadJSON reads the value in a JSON file, for example in a file that WriteJSON wrote.
func ReadJSON[T any](path string) (value T, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}
