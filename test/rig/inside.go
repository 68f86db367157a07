package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/registry"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// insideMain is the main function of the second process in the namespaces. args has the path of the scratch directory.
func insideMain(args []string) int {
	code, err := inside(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return max(code, 1)
	}
	return code
}

func inside(scratchDir string) (code int, err error) {
	p, err := readPlan(scratchDir)
	if err != nil {
		return 1, err
	}
	stopSignals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if len(p.Command) > 0 {
		// An interrupt from the terminal must end only the command.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		stopSignals = []os.Signal{syscall.SIGTERM}
	}
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals...)
	defer stop()

	cleanup, err := start(ctx, scratchDir, &p)
	defer func() {
		if cleanErr := cleanup(); cleanErr != nil {
			err = errors.Join(err, cleanErr)
		}
	}()
	if err != nil {
		return 1, err
	}
	switch {
	case len(p.Command) > 0:
		return runCommand(ctx, p)
	case p.Tests != nil:
		queue := os.NewFile(fdInsideQueue, "queue")
		defer queue.Close()
		tests, err := runTests(ctx, p.Env, *p.Tests, nextOf(queue))
		if err != nil {
			return 1, err
		}
		return 0, writeResults(scratchDir, tests)
	}
	return 0, stay(ctx, p.Env)
}

// start brings up the registry and the engine and completes the plan's Env. The cleanup stops what was started, also
// after an error.
func start(ctx context.Context, scratchDir string, p *plan) (cleanup func() error, err error) {
	var undo []func() error
	cleanup = func() error { return program.Undo(undo) }
	catalog, err := images.Catalog(ctx, p.CacheDir)
	if err != nil {
		return cleanup, fmt.Errorf("test images: %w", err)
	}
	reg, err := registry.Start(ctx, catalog)
	if err != nil {
		return cleanup, err
	}
	undo = append(undo, reg.Close)
	p.Env.Registry, p.Env.AuthRegistry = reg.Addr, reg.AuthAddr

	eng, err := engine.Launch(ctx, engine.Options{
		Dir:    filepath.Join(scratchDir, "engine"),
		Env:    p.Env,
		Config: map[string]any{"cgroup-parent": p.Cgroup},
	})
	if err != nil {
		return cleanup, err
	}
	undo = append(undo, func() error { return eng.Close(context.WithoutCancel(ctx)) })
	p.Env = eng.Use(p.Env)
	return cleanup, nil
}

// environ returns a command's environment, with the rig's description and DOCKER_HOST.
func environ(env rigenv.Env) []string {
	return append(os.Environ(), append(env.Environ(), "DOCKER_HOST="+env.DockerHost)...)
}

// commandGrace is how long a command gets to end after SIGTERM. critest's commands give the suite up to 30 seconds of
// this time to remove its pods.
const commandGrace = 45 * time.Second

func runCommand(ctx context.Context, p plan) (int, error) {
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = environ(p.Env)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// stay describes the rig and waits for the interrupt.
func stay(ctx context.Context, env rigenv.Env) error {
	fmt.Printf("The rig is up; interrupt to stop it. Its environment:\n  DOCKER_HOST=%s\n  %s\n",
		env.DockerHost, strings.Join(env.Environ(), "\n  "))
	<-ctx.Done()
	return nil
}
