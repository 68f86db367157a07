package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// overTransports runs a test with each value of crictl's flag --transport.
func overTransports(t *testing.T, test func(t *testing.T, transport string)) {
	for _, transport := range []string{"spdy", "websocket"} {
		t.Run(transport, func(t *testing.T) { test(t, "--transport="+transport) })
	}
}

// on returns a crictl that reports its failures to a part of the test.
func (c *crictl) on(t *testing.T) *crictl {
	part := *c
	part.t = t
	return &part
}

const shellImage = "test/busybox:latest"

// The errors for a program that does not exist, and for a directory. The second error depends on the release of runc.
var (
	noSuchProgram = regexp.MustCompile("executable file not found")
	notAProgram   = regexp.MustCompile("permission denied|is a directory")
)

func TestExecStreams(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		r := c.try("exec", transport, id, "sh", "-c", "echo to stdout; echo to stderr >&2; exit 3")
		testutil.Assert(t, r.stdout == "to stdout\n" && strings.HasPrefix(r.stderr, "to stderr\n") &&
			strings.Contains(r.stderr, "exit code 3") && r.code != 0,
			"streams and exit code: %+v", r)
		if r = c.try("exec", transport, id, "true"); r != (result{}) {
			t.Errorf("true: %+v", r)
		}
		r = c.try("exec", transport, id, "no-such-program")
		testutil.Assert(t, noSuchProgram.MatchString(r.stdout+r.stderr) &&
			regexp.MustCompile("exit code 12[67]").MatchString(r.stderr),
			"a command that does not exist: %+v", r)
		r = c.try("exec", transport, id, "/etc")
		testutil.Assert(t, notAProgram.MatchString(r.stdout+r.stderr) && strings.Contains(r.stderr, "exit code 126"),
			"a command that is not a program: %+v", r)
		// All output arrives, though the command is gone before the client has read it.
		r = c.try("exec", transport, id, "sh", "-c", "head -c 20000000 /dev/zero")
		testutil.Assert(t, len(r.stdout) == 20000000 && r.code == 0,
			"20 MB of output: %d bytes, %s", len(r.stdout), r.stderr)
	})
}

// Ten megabytes go through cat and come back. The client closes only its sending half, which ends the input of cat.
func TestExecLargeInput(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	sent := make([]byte, 10<<20)
	rand.New(rand.NewSource(1)).Read(sent)
	overTransports(t, func(t *testing.T, transport string) {
		s := c.on(t).background("exec", "-i", transport, id, "cat")
		_, err := io.Copy(s.input, bytes.NewReader(sent))
		testutil.Must(t, err)
		_ = s.input.Close()
		code := s.wait()
		testutil.Assert(t, code == 0, "exit code %d: %s", code, s.stderr)
		got := s.stdout.String()
		testutil.Assert(t, sha256.Sum256([]byte(got)) == sha256.Sum256(sent),
			"%d bytes came back of %d, or wrong bytes", len(got), len(sent))
	})
}

func TestExecOnTerminal(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	overTransports(t, func(t *testing.T, transport string) {
		s := c.on(t).onTerminal("exec", "-it", transport, id, "sh")
		s.expect("# ")
		s.say("tty && echo is a ter''minal")
		s.expect("is a terminal")
		s.sized(80, 24)
		s.resize(132, 43)
		s.sized(132, 43)
		s.say("sleep 1000")
		time.Sleep(200 * time.Millisecond)
		if _, err := s.input.Write([]byte{3}); err != nil { // ctrl-C
			t.Fatal(err)
		}
		s.say("echo after the inter''rupt")
		s.expect("after the interrupt")
		s.say("exit 7")
		code := s.wait()
		testutil.Assert(t, code != 0, "exit code 0")
		s.expect("exit code 7")
	})
}

// stdinContainer runs a container that reads its standard input.
func (c *crictl) stdinContainer(p pod, name string, settings map[string]any, command ...string) string {
	c.t.Helper()
	config := map[string]any{
		"metadata": map[string]any{"name": name},
		"image":    map[string]string{"image": c.env.Image(shellImage)},
		"command":  command,
		"log_path": name + ".log",
		"linux":    map[string]any{},
		"stdin":    true,
	}
	for key, value := range settings {
		config[key] = value
	}
	id := c.run("create", "--with-pull", p.id, c.write(name+".json", config), p.config)
	c.run("start", id)
	return id
}

// The input of a container with stdin_once ends when the input of its first client ends.
func TestAttachStdinOnce(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		id := c.stdinContainer(p, "once"+transport[len("--transport="):], map[string]any{"stdin_once": true},
			"sh", "-c", "while read line; do echo got $line; echo error $line >&2; done; echo end of input; exit 4")
		s := c.background("attach", "-i", transport, id)
		s.say("one")
		s.expect("got one\n")
		s.say("two")
		s.expect("got two\n")
		_ = s.input.Close()
		s.wait()
		testutil.Assert(t, s.stdout.String() == "got one\ngot two\nend of input\n" &&
			strings.HasPrefix(s.stderr.String(), "error one\nerror two\n"),
			"stdout %q, stderr %q", s.stdout, s.stderr)
		c.await(id, "CONTAINER_EXITED 4")
	})
}

// A container without stdin_once outlives its clients. Each new client sees the output from its attach on.
func TestAttachAgain(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		id := c.stdinContainer(p, "again"+transport[len("--transport="):], nil,
			"sh", "-c", "while read line; do echo got $line; done")
		for _, word := range []string{"first", "second"} {
			s := c.background("attach", "-i", transport, id)
			s.say(word)
			s.expect("got " + word + "\n")
			s.kill()
			same(t, "what one client sees", s.stdout.String(), "got "+word+"\n")
			same(t, "state", inspect(c, id).Status.State, "CONTAINER_RUNNING")
		}
	})
}

func TestAttachOnTerminal(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		id := c.stdinContainer(p, "tty"+transport[len("--transport="):], map[string]any{"tty": true}, "sh")
		s := c.onTerminal("attach", "-it", transport, id)
		s.resize(100, 30)
		s.sized(100, 30)
		s.kill()
		same(t, "state when the client is gone", inspect(c, id).Status.State, "CONTAINER_RUNNING")
		s = c.onTerminal("attach", "-it", transport, id)
		s.say("exit 5")
		s.wait()
		c.await(id, "CONTAINER_EXITED 5")
	})
}

// A refused request gets no URL.
func TestStreamsAreRefusedBeforeTheURL(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	stopped := c.container(p, "stopped", shellImage, "sleep", "1000")
	c.run("stop", "--timeout", "0", stopped)
	created := c.run("create", "--with-pull", p.id, c.containerConfig("created", shellImage, "sleep", "1000"), p.config)
	cri := c.server.Runtime
	exec := func(id string) error {
		_, err := cri.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"true"}, Stdout: true})
		return err
	}
	attach := func(id string) error {
		_, err := cri.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: id, Stdout: true})
		return err
	}
	forward := func(id string) error {
		_, err := cri.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: id})
		return err
	}
	for name, call := range map[string]func(string) error{"exec": exec, "attach": attach, "port-forward": forward} {
		same(t, name+" of nothing", status.Code(call("feedbeef")), codes.NotFound)
		if name == "port-forward" {
			continue
		}
		same(t, name+" of a stopped container", status.Code(call(stopped)), codes.FailedPrecondition)
		same(t, name+" of a created container", status.Code(call(created)), codes.FailedPrecondition)
	}
	c.run("stopp", p.id)
	same(t, "port-forward of a stopped pod", status.Code(forward(p.id)), codes.FailedPrecondition)
}

// Clients that are killed leave nothing behind: no process, no connection, no goroutine, and no exec in the engine.
func TestStreamsOfKilledClientsEnd(t *testing.T) {
	t.Run("straight to the runtime", func(t *testing.T) { killClients(t, 0) })
	t.Run("through the engine", func(t *testing.T) { killClients(t, 3*3, "--exec-through-engine") })
}

// killClients kills clients of streams on a server with these flags. Before that, it waits until the clients' commands
// run, and until the engine knows at least as many execs as known says.
func killClients(t *testing.T, known int, flags ...string) {
	e := newEndpoint(t)
	c := newCrictl(t, append(flags, e.flag())...)
	p := c.runPod()
	// With RUNTIME_MODE=oci, the container has a PID namespace of its own. The shell is then its first process, which
	// must reap the processes that commands leave.
	id := c.container(p, "shell", shellImage, "sh", "-c", "sleep 1000; true")
	c.awaitListener(c.container(p, "silent", shellImage, "nc", "-ll", "-p", "9000", "-e", "sleep", "2000"), 9000)
	// The processes that the pod's own service starts for connections do not count.
	processes := func() int {
		all := c.run("exec", "-s", id, "ps")
		return strings.Count(all, "\n") - strings.Count(all, "sleep 2000")
	}
	processesBefore := processes()
	// Each idle connection to the engine has two goroutines.
	goroutines := func() int { return int(e.scrape()["go_goroutines"]) }
	goroutinesBefore := goroutines()
	toEngineBefore, othersBefore := openFiles(c.server.PID())
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		var sessions []*session
		for range 3 {
			shell := c.onTerminal("exec", "-it", transport, id, "sh")
			shell.expect("# ")
			shell.say("sleep 3000") // the shell's child
			// The test waits until each command runs, because the engine keeps an exec that it has created but not
			// begun.
			plain := c.background("exec", transport, id, "sh", "-c", "echo begun; sleep 4000")
			plain.expect("begun\n")
			reading := c.background("exec", "-i", transport, id, "sh", "-c", "echo begun; cat; sleep 4000")
			reading.expect("begun\n")
			sessions = append(sessions, shell, plain, reading, c.background("attach", transport, id))
			forwarded, address := c.forward(p.id, transport, 9000)
			conn, err := net.Dial("tcp", address)
			testutil.Must(t, err)
			defer conn.Close()
			sessions = append(sessions, forwarded)
		}
		testutil.Eventually(t, func() error {
			if now, execs := processes(), c.execs(id); now < processesBefore+3*5 || execs < known {
				return fmt.Errorf("%d processes of %d, %d execs", now, processesBefore, execs)
			}
			return nil
		})
		for _, s := range sessions {
			s.kill()
		}
		testutil.Eventually(t, func() error {
			toEngine, others := openFiles(c.server.PID())
			// The server keeps some idle connections to the engine.
			if now := processes(); now > processesBefore || others > othersBefore || toEngine > toEngineBefore+10 {
				return fmt.Errorf("%d processes of %d, %d connections to the engine of %d, %d other files of %d:\n%s",
					now, processesBefore,
					toEngine, toEngineBefore, others, othersBefore, c.run("exec", "-s", id, "ps"))
			}
			if now, execs := goroutines(), c.execs(id); now > goroutinesBefore+2*10 || execs > 0 {
				return fmt.Errorf("%d goroutines of %d, %d execs", now, goroutinesBefore, execs)
			}
			return nil
		})
	})
}

// execs counts the commands in a container that the engine knows.
func (c *crictl) execs(id string) int {
	c.t.Helper()
	count, err := strconv.Atoi(engine.Docker(c.t, c.env.DockerHost, "inspect", "--format", "{{len .ExecIDs}}", id))
	testutil.Must(c.t, err)
	return count
}

// openFiles counts the open unix sockets of a process, and its other open files. criadapter's unix sockets lead to the
// engine, and to one client at a time.
func openFiles(pid int) (unixSockets, others int) {
	dir := fmt.Sprintf("/proc/%d", pid)
	sockets := proctable.Sockets(dir)
	for _, link := range proctable.OpenFiles(dir) {
		if _, unixSocket := sockets[link]; unixSocket {
			unixSockets++
		} else {
			others++
		}
	}
	return unixSockets, others
}

// A command that ignores SIGHUP (nohup) outlives its client.
func TestCommandThatIgnoresTheHangUpGoesOn(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	s := c.background("exec", id, "sh", "-c", "trap '' HUP; echo begun; sleep 3; touch /tmp/done")
	s.expect("begun")
	s.kill()
	testutil.Eventually(t, func() error {
		if r := c.try("exec", "-s", id, "ls", "/tmp/done"); r.code != 0 {
			return fmt.Errorf("the command did not outlive its client: %+v", r)
		}
		return nil
	})
}
