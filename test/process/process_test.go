package process

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func startShell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(filepath.Join(t.TempDir(), "log"), nil, "/bin/sh", "-c", script)
	testutil.Must(t, err)
	t.Cleanup(p.Kill)
	return p
}

// notReady is the answer of a program that is still starting.
func notReady(context.Context) error { return errors.New("not yet") }

func TestProcessThatEndsIsNotWaitedFor(t *testing.T) {
	p := startShell(t, "echo broken; exit 3")
	err := p.Await(t.Context(), notReady)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := startShell(t, "exec sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 3*pollInterval)
	defer cancel()
	err := p.Await(ctx, notReady)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "not yet"), "%v", err)
	asked := 0
	err = p.Await(t.Context(), func(context.Context) error {
		if asked++; asked < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	testutil.Assert(t, err == nil && asked == 3, "asked %d times, %v", asked, err)
}

func TestStopAndKillEndIt(t *testing.T) {
	for name, end := range map[string]func(*Process) error{
		"stop": func(p *Process) error { return p.Stop(t.Context()) },
		"kill": func(p *Process) error { p.Kill(); return nil },
	} {
		p := startShell(t, "exec sleep 600")
		testutil.Check(t, end(p), name)
		select {
		case <-p.Ended():
		case <-time.After(time.Second):
			t.Errorf("%s: the process still runs", name)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("%s, and again: %v", name, err)
		}
	}
}

func TestStartOfNothing(t *testing.T) {
	if p, err := Start(filepath.Join(t.TempDir(), "log"), nil, "/no/such/program"); err == nil {
		p.Kill()
		t.Error("started")
	}
}
