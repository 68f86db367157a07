package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/test/inside"
)

func TestMain(m *testing.M) {
	ociexec.RunKeeper()
	os.Exit(m.Run())
}

// wantAlike checks that a command sees the same through the runtime and through the engine. It returns what it sees.
func (n *node) wantAlike(t *testing.T, look func() string) string {
	t.Helper()
	before := n.CommandWay()
	throughRuntime := look()
	if now := n.CommandWay(); now.ThroughRuntime != before.ThroughRuntime+1 {
		t.Fatalf("the command went through the engine: %s", now.EngineReason)
	}
	n.opts.Commands = nil
	throughEngine := look()
	n.opts.Commands = n.commands
	for _, line := range inside.Differences(throughRuntime, throughEngine) {
		t.Error(line)
	}
	return throughRuntime
}

// A command has the same confinement through the runtime and through the engine.
func TestRigCommandsAreConfinedAlike(t *testing.T) {
	n := newRigNode(t)
	user := func(c *runtimeapi.LinuxContainerSecurityContext) {
		c.RunAsUser, c.RunAsGroup = &runtimeapi.Int64Value{Value: 1000}, &runtimeapi.Int64Value{Value: 3000}
		c.SupplementalGroups = []int64{5000, 5001}
	}
	tests := map[string]func(*runtimeapi.ContainerConfig, *runtimeapi.LinuxContainerSecurityContext){
		"plain": func(*runtimeapi.ContainerConfig, *runtimeapi.LinuxContainerSecurityContext) {},
		"user":  func(_ *runtimeapi.ContainerConfig, c *runtimeapi.LinuxContainerSecurityContext) { user(c) },
		"restricted": func(_ *runtimeapi.ContainerConfig, c *runtimeapi.LinuxContainerSecurityContext) {
			user(c)
			c.NoNewPrivs, c.ReadonlyRootfs = true, true
			c.Capabilities = &runtimeapi.Capability{DropCapabilities: []string{"ALL"},
				AddCapabilities: []string{"NET_BIND_SERVICE"}}
			c.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
		},
		"capabilities": func(_ *runtimeapi.ContainerConfig, c *runtimeapi.LinuxContainerSecurityContext) {
			c.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"SYS_ADMIN"},
				DropCapabilities: []string{"CHOWN"}}
		},
		"privileged": func(_ *runtimeapi.ContainerConfig, c *runtimeapi.LinuxContainerSecurityContext) {
			c.Privileged = true
		},
		"environment": func(config *runtimeapi.ContainerConfig, _ *runtimeapi.LinuxContainerSecurityContext) {
			config.WorkingDir = "/tmp"
			config.Envs = []*runtimeapi.KeyValue{{Key: "PATH", Value: []byte("/bin:/usr/bin")},
				{Key: "A", Value: []byte("1=2 3")}, {Key: "HOME", Value: []byte("/h")}}
		},
		"score": func(config *runtimeapi.ContainerConfig, _ *runtimeapi.LinuxContainerSecurityContext) {
			config.Linux.Resources = &runtimeapi.LinuxContainerResources{OomScoreAdj: 700, MemoryLimitInBytes: 64 * mib}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			config := n.config("sleep", "1000")
			config.Linux = &runtimeapi.LinuxContainerConfig{
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{}}
			change(config, config.Linux.SecurityContext)
			id := n.started(n.pod(), config)
			view := n.wantAlike(t, func() string {
				got, err := n.exec(id, time.Minute, inside.View)
				testutil.Must(t, err)
				testutil.Require(t, len(got.Stdout) != 0, "the command printed nothing: %+v", got)
				return string(got.Stdout) + string(got.Stderr)
			})
			if t.Failed() || testing.Verbose() {
				t.Log(view)
			}
		})
	}
}

// A command sees no descriptor, directory or environment variable of this program, and not the runtime's binary
// (CVE-2024-21626, CVE-2019-5736).
func TestRigNothingLeaksIntoACommand(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	t.Setenv("CRIADAPTER_TEST_SECRET", "leaked")
	secret, err := os.CreateTemp(t.TempDir(), "secret")
	testutil.Must(t, err)
	defer secret.Close()
	got, err := n.exec(id, time.Minute, `
ls -d /proc/$$/fd/*
cat /proc/$$/environ | tr '\000' '\n' | grep -i -e criadapter -e keeper && echo an environment
ls -l /proc/*/exe 2>/dev/null | grep -e runc -e crun -e criadapter -e test
true`)
	testutil.Must(t, err)
	var fds []string
	for line := range strings.Lines(string(got.Stdout)) {
		if !strings.HasPrefix(line, "/proc/") {
			t.Errorf("a command sees %s", line)
			continue
		}
		fds = append(fds, strings.TrimSpace(line[strings.LastIndexByte(line, '/')+1:]))
	}
	testutil.Equal(t, strings.Join(fds, " "), "0 1 2", "a command has the descriptors")
	testutil.Assert(t, n.CommandWay().ThroughRuntime != 0, "the command went through the engine")
}

// A container makes the runtime execute itself, and writes to the program file of each process that appears. No program
// of the node changes (CVE-2019-5736).
func TestRigCommandsReachNoProgramOfTheNode(t *testing.T) {
	n := newRigNode(t)
	id := n.shell(`
printf '#!/proc/self/exe\n' >/bin/evil; chmod +x /bin/evil
while true; do
	for p in /proc/[0-9]*; do
		[ "$(readlink $p/exe)" = /bin/busybox ] || (exec 9<$p/exe; sleep 0.3; echo x >/proc/self/fd/9) 2>/dev/null &
	done
	sleep 0.02
done`)
	runc, err := exec.LookPath("runc")
	testutil.Must(t, err)
	before := contentOf(t, "/proc/self/exe", runc)
	for range 10 {
		request := ExecRequest{Command: []string{"/bin/evil"}, Timeout: time.Minute}
		_, _ = n.ExecSync(t.Context(), id, request) // the runtime refuses the command, or the command fails
	}
	testutil.Assert(t, bytes.Equal(contentOf(t, "/proc/self/exe", runc), before), "a program has changed")
	way := n.CommandWay()
	testutil.Assert(t, way.ThroughRuntime != 0, "no command ran without the engine: %s", way.EngineReason)
	n.wantState(id, running)
}

// A working directory that links to a descriptor of the runtime or the keeper does not lead out of the container
// (CVE-2024-21626).
func TestRigWorkingDirectoryIsInTheContainer(t *testing.T) {
	n := newRigNode(t)
	config := n.config("sh", "-c", `
rmdir /work; touch /inside
while true; do
	ln -sfn /proc/self/fd/$((i%12)) /work; sleep 0.05
	ln -sfn / /work; sleep 0.05
	i=$((i+1))
done`)
	config.WorkingDir = "/work"
	id := n.started(n.pod(), config)
	for range 24 {
		got, err := n.exec(id, time.Minute, "test -e /proc/self/cwd/../../../../../../inside || echo outside")
		testutil.Assert(t, err != nil || string(got.Stdout) != "outside\n", "a command works outside of its container")
	}
	way := n.CommandWay()
	testutil.Assert(t, way.ThroughRuntime != 0, "no command ran without the engine: %s", way.EngineReason)
	n.wantState(id, running)
}

// contentOf is the text of all files.
func contentOf(t *testing.T, paths ...string) (all []byte) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		testutil.Must(t, err)
		all = append(all, text...)
	}
	return all
}

// A missing program gives the same answer through the runtime as through the engine.
func TestRigMissingProgramIsReportedAlike(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	for _, command := range []string{"no-such-command", "/no/such/command", "/etc", "/etc/passwd"} {
		request := ExecRequest{Command: []string{command}, Timeout: time.Minute}
		begun := time.Now()
		runtime, err := n.ExecSync(t.Context(), id, request)
		testutil.Must(t, err)
		t.Logf("%s: %v through the runtime", command, time.Since(begun))
		if n.CommandWay().ThroughEngine != 0 {
			t.Errorf("%s went through the engine: %s", command, n.CommandWay().EngineReason)
		}
		n.opts.Commands = nil
		begun = time.Now()
		engine, err := n.ExecSync(t.Context(), id, request)
		testutil.Must(t, err)
		t.Logf("%s: %v through the engine", command, time.Since(begun))
		n.opts.Commands, n.way.seen = n.commands, CommandWay{}
		// Some engines add the kind of the error: unknown, permission denied.
		want := string(engine.Stdout)
		testutil.Assert(t, strings.HasPrefix(want, strings.TrimSuffix(string(runtime.Stdout), "\r\n")) &&
			string(runtime.Stderr) == string(engine.Stderr),
			"%s: %q %q, want %q %q", command, runtime.Stdout, runtime.Stderr, want, engine.Stderr)
		testutil.Equal(t, runtime.ExitCode, engine.ExitCode, "%s: the exit code", command)
	}
}

// keeper returns the process id of the node's keeper.
func (n *node) keeper() int {
	n.t.Helper()
	all, err := proctable.All()
	testutil.Must(n.t, err)
	for _, p := range all {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && p.Parent == os.Getpid() && strings.HasPrefix(string(line), "criadapter-keeper") {
			return p.PID
		}
	}
	n.t.Fatal("there is no keeper")
	return 0
}

// When this program ends, the keeper loses its connection and ends the commands.
func TestRigCommandsEndWithTheServer(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	ended := testutil.Try(func() (*ExecResult, error) {
		return n.exec(id, time.Minute, "(sleep 611 &); sleep 612; true")
	})
	testutil.Until(t, "the command runs", func() bool { return n.runs(id, "sleep 611") && n.runs(id, "sleep 612") })
	n.commands.Close()
	testutil.Assert(t, <-ended != nil, "the command succeeded")
	testutil.Assert(t, !n.runs(id, "sleep 61"), "the command goes on")
	testutil.Assert(t, n.runs(id, "sleep 1000"), "the container was killed")
}

// The server kills the commands of a killed keeper, because it can no longer wait for them. The next command has a new
// keeper.
func TestRigKilledKeeper(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	ended := testutil.Try(func() (*ExecResult, error) { return n.exec(id, time.Minute, "sleep 613; true") })
	testutil.Eventually(t, func() error {
		if !n.runs(id, "sleep 613") {
			return fmt.Errorf("the command does not run")
		}
		if children := n.children(n.keeper()); len(children) != 1 || !strings.Contains(children[0], "sleep 613") {
			return fmt.Errorf("the runtime has not ended: %q", children)
		}
		return nil
	})
	process, err := os.FindProcess(n.keeper())
	testutil.Must(t, err)
	testutil.Must(t, process.Kill())
	testutil.Assert(t, <-ended != nil, "the command succeeded")
	testutil.Assert(t, !n.runs(id, "sleep 613"), "the command goes on")
	got, err := n.exec(id, time.Minute, "echo out")
	testutil.Assert(t, err == nil && string(got.Stdout) == "out\n", "the next command: %+v, %v", got, err)
}

// terminalView waits until the terminal has the client's size, then prints the terminal's properties.
const terminalView = `
tries=0
until [ "$(stty size 2>/dev/null)" = "33 77" ] || [ $tries = 100 ]; do tries=$((tries+1)); sleep 0.05; done
stty -a; tty; echo "TERM=$TERM"; env; stat -L -c '%n is a %F of %u with %a' /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2
head -c 5; cat; exit 9`

// A terminal is the same through the runtime and through the engine. It follows the client's size, and the command ends
// with its input.
func TestRigTerminalsAreAlike(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	view := n.wantAlike(t, func() string {
		var output bytes.Buffer
		sizes := make(chan Size, 1)
		sizes <- Size{Width: 77, Height: 33}
		code, err := n.Exec(t.Context(), id, []string{"sh", "-c", terminalView}, Streams{
			Stdin: strings.NewReader("typed\nmore\n"), Stdout: &output, TTY: true, Resize: sizes,
		})
		testutil.Assert(t, err == nil && code == 9, "Exec: %d, %v", code, err)
		return output.String()
	})
	for _, part := range []string{"rows 33", "columns 77", "TERM=xterm", "more"} {
		testutil.Assert(t, strings.Contains(view, part), "%q is missing: %s", part, view)
	}
}

// The end of the client's input closes the command's input and leaves its output open.
func TestRigInputEndsAlone(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	var stdout, stderr bytes.Buffer
	code, err := n.Exec(t.Context(), id, []string{"sh", "-c", "cat; echo after; echo wrong >&2; exit 4"}, Streams{
		Stdin: strings.NewReader(strings.Repeat("x", 200_000)), Stdout: &stdout, Stderr: &stderr,
	})
	testutil.Assert(t, err == nil && code == 4 && stderr.String() == "wrong\n" &&
		stdout.String() == strings.Repeat("x", 200_000)+"after\n",
		"%d, %v, %d bytes, %q", code, err, stdout.Len(), stderr.String())
	if n.CommandWay().ThroughRuntime != 1 {
		t.Errorf("the command went through the engine: %s", n.CommandWay().EngineReason)
	}
}

// A waiting session keeps no process of the runtime.
func TestRigSessionHoldsNoRuntime(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	ended := testutil.Try(func() (int, error) {
		return n.Exec(ctx, id, []string{"sleep", "614"}, Streams{Stdout: io.Discard})
	})
	testutil.Eventually(t, func() error {
		if !n.runs(id, "sleep 614") {
			return fmt.Errorf("the command does not run")
		}
		children := n.children(n.keeper())
		if len(children) != 1 || !strings.Contains(children[0], "sleep") {
			return fmt.Errorf("the keeper's children are %q", children)
		}
		return nil
	})
	cancel()
	testutil.FailsWith(t, <-ended, context.Canceled, "Exec")
	testutil.Until(t, "the command ends", func() bool { return !n.runs(id, "sleep 614") })
}

// A command that ignores the hang-up of its client goes on. All its output is discarded, and it neither waits nor gets
// SIGPIPE.
func TestRigNohupOutlivesItsClient(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	const script = "trap '' HUP; echo up; until [ -e /gone-$0 ]; do sleep 0.05; done; " +
		"head -c 300000 /dev/zero && head -c 300000 /dev/zero >&2 && touch /finished-$0; sleep 0.3"
	for name, tty := range map[string]bool{"pipes": false, "terminal": true} {
		for _, way := range []string{"runtime", "engine"} {
			t.Run(name+" through the "+way, func(t *testing.T) {
				n.opts.Commands = n.commands
				if way == "engine" {
					n.opts.Commands = nil
				}
				file := name + way
				ctx, leave := context.WithCancel(t.Context())
				var output testutil.Buffer
				ended := testutil.Try(func() (int, error) {
					return n.Exec(ctx, id, []string{"sh", "-c", script, file}, Streams{Stdout: &output, TTY: tty})
				})
				testutil.Until(t, "the command is up", func() bool { return strings.Contains(output.String(), "up") })
				leave()
				err := <-ended
				testutil.Assert(t, errors.Is(err, context.Canceled), "Exec: %v", err)
				_, err = n.exec(id, time.Minute, "touch /gone-"+file)
				testutil.Must(t, err)
				testutil.Until(t, "the command has written everything", func() bool {
					got, err := n.exec(id, time.Minute, "test -e /finished-"+file)
					return err == nil && got.ExitCode == 0
				})
			})
		}
	}
}

// children returns the command lines of a process's children.
func (n *node) children(parent int) []string {
	n.t.Helper()
	all, err := proctable.All()
	testutil.Must(n.t, err)
	var lines []string
	for _, p := range all {
		if p.Parent == parent {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // it may have ended
			lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return lines
}
