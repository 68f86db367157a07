package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/ociexec"
)

// asProgram is the environment variable that makes the test binary run the program.
const asProgram = "CRIADAPTER_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	ociexec.RunKeeper()
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program is the program as a process of its own, without an engine. It is killed when the test ends.
type program struct {
	*exec.Cmd
	socket string
	ended  chan error
}

// startProgram runs a shell script that starts the program, which is $0 there, and waits until the program answers.
func startProgram(t *testing.T, socket, script string, prepare func(*exec.Cmd)) *program {
	t.Helper()
	self, err := os.Executable()
	testutil.Must(t, err)
	p := &program{Cmd: exec.Command("sh", "-c", script, self), socket: socket, ended: make(chan error, 1)}
	p.Env = append(os.Environ(), asProgram+"=1")
	if prepare != nil {
		prepare(p.Cmd)
	}
	testutil.Must(t, p.Start())
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill() })
	testutil.Eventually(t, func() error { return p.answers(t.Context()) })
	return p
}

// answers asks for the version, and fails when the program has ended.
func (p *program) answers(ctx context.Context) error {
	select {
	case err := <-p.ended:
		p.ended <- err
		return fmt.Errorf("the program has ended: %w", err)
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return askVersion(ctx, p.socket)
}

// plainFlags returns the flags of a program without an engine, with its own directory.
func plainFlags(dir string) string {
	return fmt.Sprintf(" --root-directory=%s/state --network-plugin=bridge --docker-endpoint=unix://%s/no-engine.sock",
		dir, dir)
}

func TestSurvivesSignals(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "cri.sock")
	reader, writer, err := os.Pipe()
	testutil.Must(t, err)
	script := "exec $0 --log-level=debug --container-runtime-endpoint=unix://" + socket + plainFlags(dir)
	p := startProgram(t, socket, script, func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = writer, writer })
	_ = writer.Close()
	_ = reader.Close() // from here on each line of the log causes a SIGPIPE
	for range 3 {
		testutil.Must(t, p.answers(t.Context()), "with a broken stderr")
		testutil.Must(t, p.Process.Signal(syscall.SIGHUP))
		time.Sleep(100 * time.Millisecond)
	}
	testutil.Must(t, p.answers(t.Context()), "after SIGHUP")
	testutil.Must(t, p.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.ended:
		testutil.Assert(t, err == nil, "after SIGTERM: %v", err)
	case <-time.After(3 * time.Minute):
		t.Error("it does not end after SIGTERM")
	}
}

// cri-dockerd's unit starts this program if only the program's name is replaced. The socket comes from systemd, the
// program reports readiness to systemd, and a reload is SIGHUP.
func TestCriDockerdsUnit(t *testing.T) {
	u := newUnit(t)
	var output testutil.Buffer
	// Flags of cri-dockerd that an operator may have added to the unit.
	p := u.start(t, " --hairpin-mode=hairpin-veth --pod-cidr=10.1.0.0/16 --network-plugin-mtu=1400 --ipv6-dual-stack "+
		"--runtime-cgroups=/x", &output)
	u.systemd.wait("READY=1")
	testutil.Must(t, p.Process.Signal(syscall.SIGHUP))
	u.systemd.wait("RELOADING=1")
	u.systemd.wait("READY=1")
	testutil.Check(t, p.answers(t.Context()))
	warned := strings.Count(output.String(), "no effect")
	testutil.Assert(t, warned == 1 && strings.Contains(output.String(), "--pod-cidr"),
		"%d lines about flags without effect:\n%s", warned, &output)
}
