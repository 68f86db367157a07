package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// output collects what a running command writes.
type output struct{ testutil.Buffer }

// has waits until the text was written.
func (o *output) has(t *testing.T, want string) {
	t.Helper()
	eventually(t, "output", func() error {
		return wantText(o.String(), want)
	})
}

// command returns a kubelet-core command for this node. It inserts --read-address before a `--` argument.
func (n *node) command(ctx context.Context, args ...string) *exec.Cmd {
	at := slices.Index(args, "--")
	if at < 0 {
		at = len(args)
	}
	args = slices.Insert(slices.Clone(args), at, "--read-address", n.address)
	return exec.CommandContext(ctx, n.program, args...)
}

// person runs a kubelet-core command to its end, with stdin as its input.
func (n *node) person(stdin string, args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// begin starts a command that goes on, and ends it with the test.
func (n *node) begin(args ...string) (*output, *exec.Cmd, <-chan error) {
	n.t.Helper()
	cmd, out := n.command(n.t.Context(), args...), &output{}
	cmd.Stdout, cmd.Stderr = out, out
	testutil.Must(n.t, cmd.Start())
	ended := testutil.Go(cmd.Wait)
	return out, cmd, ended
}

const chatty = `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: chat}}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: work, emptyDir: {}}]
  initContainers: [{name: init, image: SHELL, command: [echo, "init was here"]}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo out; echo err >&2; printf unfinished;
      while [ ! -e /tmp/end ]; do sleep 0.1; done; sleep 1; echo bye; exit 3"]
    env: [{name: WHO, value: world}]
    volumeMounts: [{name: work, mountPath: /scratch}]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 30}
  - {name: other, image: SHELL, command: [sh, -c, "echo other; sleep 1000"]}
`

// TestGetAndDescribe checks what get and describe print without a cluster.
func TestGetAndDescribe(t *testing.T) {
	n := newNode(t)
	_, stderr, code := n.person("", "get", "pods")
	testutil.Assert(t, code == 0 && stderr == "No pods.\n", "without pods: %d, %s", code, stderr)
	watch, cmd, ended := n.begin("get", "pods", "-w")
	watch.has(t, "NAMESPACE")
	n.write("web.yaml", chatty)
	pod := n.ready("web")
	watch.has(t, "2/2     Running")
	stdout, stderr, code := n.person("", "get", "pods")
	fields := strings.Fields(stdout)
	testutil.Assert(t, code == 0 && len(fields) == 14 &&
		strings.Join(fields[7:12], " ") == "default "+pod.Name+" 2/2 Running 0" && fields[13] == pod.Status.PodIP,
		"%d\n%s%s", code, stdout, stderr)
	stdout, _, _ = n.person("", "get", "pods", "web", "-o", "yaml")
	testutil.Assert(t, strings.Contains(stdout, "kind: PodList") &&
		strings.Contains(stdout, "podIP: "+pod.Status.PodIP), "yaml:\n%s", stdout)
	stdout, stderr, code = n.person("", "describe", "pod", "web")
	testutil.Assert(t, code == 0, "describe: %d, %s", code, stderr)
	for _, want := range []string{
		"Name:               " + pod.Name, "Manifest:           " + n.manifests + "/web.yaml", "app=chat",
		"QoS Class:          BestEffort", "WHO=(hidden)", "/scratch from work",
		"Reason:       Completed", "State:          Running", "Liveness:       exec [true]", "Normal", "Started",
		"Container started",
	} {
		testutil.Assert(t, strings.Contains(stdout, want), "no %q in\n%s", want, stdout)
	}
	n.end("web")
	watch.has(t, "Gone")
	testutil.Check(t, cmd.Process.Signal(os.Interrupt))
	testutil.Check(t, <-ended, "the watch ended with")
}

// TestClearErrors asks for objects that do not exist.
func TestClearErrors(t *testing.T) {
	n := newNode(t)
	n.write("web.yaml", chatty)
	n.ready("web")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "pods", "none"}, "there are: default/web-" + n.name},
		{[]string{"describe", "none"}, `pod "none"`},
		{[]string{"logs", "web", "-c", "none"}, `no container "none"; it has: init (init), main, other`},
		{[]string{"logs", "web", "-p", "-c", "main"}, "was not restarted"},
		{[]string{"exec", "web", "-c", "init", "--", "true"}, "does not run (Completed)"},
		{[]string{"exec", "web"}, "a command are required"},
		{[]string{"get", "pods", "-n", "none", "web"}, "in namespace none"},
		{[]string{"get", "pods", "-o", "gold"}, `"gold" is none of wide, json and yaml`},
		{[]string{"get", "cake"}, "cake"},
	} {
		_, stderr, code := n.person("", c.args...)
		testutil.Assert(t, code != 0 && strings.Contains(stderr, c.want) && !strings.Contains(stderr, "rpc error") &&
			strings.Count(stderr, "\n") <= 2, "%v: exit code %d, %q; want a short message with %q", c.args, code,
			stderr, c.want)
	}
	n.stop()
	_, stderr, code := n.person("", "get", "pods")
	testutil.Assert(t, code == 1 && strings.Contains(stderr, "no kubelet core answers at "+n.address),
		"without a kubelet: %d, %s", code, stderr)
}

// TestLogs reads logs: of one container, up to its end with -f, and of the attempt before a restart with -p.
func TestLogs(t *testing.T) {
	n := newNode(t)
	n.write("web.yaml", chatty)
	n.ready("web")
	eventually(t, "both streams", func() error {
		stdout, stderr, code := n.person("", "logs", "web")
		if code != 0 || stdout != "out\n" || !strings.HasSuffix(stderr, "err\n") ||
			!strings.Contains(stderr, "Defaulted container \"main\" out of: init (init), main, other") {
			return fmt.Errorf("%d: %q and %q", code, stdout, stderr)
		}
		return nil
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"web", "-c", "init"}, "init was here\n"}, {[]string{"web", "other"}, "other\n"},
		{[]string{"web", "-c", "other", "--tail", "0"}, ""},
		{[]string{"web", "-c", "other", "--since", "1h"}, "other\n"},
	} {
		if stdout, stderr, code := n.person("", append([]string{"logs"}, c.args...)...); code != 0 || stdout != c.want {
			t.Errorf("%v: %d, %q, %s; want %q", c.args, code, stdout, stderr, c.want)
		}
	}
	stdout, _, _ := n.person("", "logs", "web", "other", "--timestamps")
	stamp, text, _ := strings.Cut(stdout, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	testutil.Assert(t, err == nil && time.Since(at) <= time.Hour && text == "other\n",
		"with the time: %q, %v", stdout, err)
	follower, _, ended := n.begin("logs", "web", "-f", "-c", "main")
	follower.has(t, "out\n")
	_, stderr, code := n.person("", "exec", "web", "-c", "main", "--", "touch", "/tmp/end")
	testutil.Require(t, code == 0, "%v", stderr)
	testutil.Check(t, <-ended, "following ended with")
	got := follower.String()
	testutil.Assert(t, strings.HasSuffix(got, "unfinishedbye\n"), "the end of the log was not followed: %q", got)
	n.restarted("web", "main", 1)
	stdout, stderr, code = n.person("", "logs", "web", "-c", "main", "-p")
	testutil.Assert(t, code == 0 && strings.Contains(stdout, "bye\n"),
		"the previous log: %d, %q, %s", code, stdout, stderr)
}

// TestExec runs commands: exit codes, both outputs, input, a terminal.
func TestExec(t *testing.T) {
	n := newNode(t)
	n.write("web.yaml", chatty)
	n.ready("web")
	stdout, stderr, code := n.person("", "exec", "web", "-c", "main", "--", "sh", "-c",
		"echo $WHO; echo oops >&2; exit 42")
	testutil.Assert(t, stdout == "world\n" && stderr == "oops\n" && code == 42, "%q, %q, %d", stdout, stderr, code)
	stdout, stderr, code = n.person("a\nb\n", "exec", "-i", "web", "-c", "main", "--", "wc", "-l")
	testutil.Assert(t, strings.TrimSpace(stdout) == "2" && code == 0, "%q, %q, %d", stdout, stderr, code)
	stdout, stderr, code = n.person("", "exec", "web", "-c", "main", "--", "/none")
	testutil.Assert(t, code != 0 && strings.Contains(stdout+stderr, "/none"),
		"a command that does not exist: %q, %q, %d", stdout, stderr, code)
	large := strings.Repeat("0123456789abcdef", 64<<10)
	stdout, stderr, code = n.person(large, "exec", "-i", "web", "-c", "main", "--", "cat")
	testutil.Assert(t, stdout == large && code == 0,
		"%d bytes of %d came back, %q, %d", len(stdout), len(large), stderr, code)
}

// TestExecTerminal uses a container's shell at a terminal: it types, resizes the terminal, interrupts a program and
// exits.
func TestExecTerminal(t *testing.T) {
	n := newNode(t)
	n.write("web.yaml", chatty)
	n.ready("web")
	keyboard, screen := testutil.Terminal(t)
	testutil.ResizeTerminal(t, keyboard, 111, 33)
	cmd := n.command(t.Context(), "exec", "-it", "web", "-c", "main", "--", "sh")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testutil.Must(t, cmd.Start())
	seen := &output{}
	read := testutil.Go(func() error {
		_, err := io.Copy(seen, keyboard)
		return err
	})
	typed := func(text string) {
		t.Helper()
		_, err := keyboard.WriteString(text)
		testutil.Must(t, err)
	}
	// The size travels beside the input, so it may come after the first command.
	sized := func(size string) {
		t.Helper()
		eventually(t, "the size "+size, func() error {
			typed("stty size\n")
			time.Sleep(200 * time.Millisecond)
			if !strings.Contains(seen.String(), size) {
				return errors.New(seen.String())
			}
			return nil
		})
	}
	typed("echo it is $((6*7))\n")
	seen.has(t, "it is 42")
	sized("33 111")
	testutil.ResizeTerminal(t, keyboard, 122, 44)
	sized("44 122")
	typed("sleep 1000\n")
	time.Sleep(300 * time.Millisecond)
	typed("\x03exit 5\n") // the interrupt goes to the container's terminal, not to kubelet-core
	ended := testutil.Go(cmd.Wait)
	select {
	case err := <-ended:
		testutil.Assert(t, cmd.ProcessState.ExitCode() == 5,
			"the session ended with %v, want exit code 5\n%s", err, seen)
	case <-time.After(patience):
		_ = cmd.Process.Kill() // the test has failed
		t.Errorf("the session does not end:\n%s", seen)
	}
	screen.Close()
	keyboard.Close()
	<-read // an error does not count: the terminal is closed
}
