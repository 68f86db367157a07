package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// notifications are the messages from the program to systemd, in their order.
type notifications struct {
	t        *testing.T
	messages chan string
}

// listenTo makes a notification socket, which the end of the test closes.
func listenTo(t *testing.T, path string) *notifications {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	l := &notifications{t: t, messages: make(chan string, 1000)}
	go func() {
		defer close(l.messages)
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			l.messages <- string(buffer[:n])
		}
	}()
	return l
}

// wait returns the next message with this line and drops the messages before it.
func (l *notifications) wait(line string) string {
	l.t.Helper()
	timeout := time.After(3 * time.Minute)
	for {
		select {
		case message := <-l.messages:
			if strings.Contains("\n"+message+"\n", "\n"+line+"\n") {
				return message
			}
		case <-timeout:
			l.t.Fatalf("systemd does not get %q", line)
		}
	}
}

// unit starts the program as systemd does: it passes sockets on and records the program's messages.
type unit struct {
	dir       string
	listeners []*os.File
	systemd   *notifications
	env       []string
}

func newUnit(t *testing.T, env ...string) *unit {
	t.Helper()
	dir := t.TempDir()
	notify := filepath.Join(dir, "notify")
	u := &unit{dir: dir, systemd: listenTo(t, notify), env: append(env, "NOTIFY_SOCKET="+notify)}
	u.listen(t, "cri.sock")
	return u
}

// listen adds a socket of the unit.
func (u *unit) listen(t *testing.T, name string) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(u.dir, name), Net: "unix"})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	file, err := listener.File()
	testutil.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	u.listeners = append(u.listeners, file)
}

func (u *unit) start(t *testing.T, flags string, output *testutil.Buffer) *program {
	t.Helper()
	script := "export LISTEN_PID=$$ WATCHDOG_PID=$$; exec $0 --container-runtime-endpoint fd://" + plainFlags(u.dir) +
		flags
	return startProgram(t, filepath.Join(u.dir, "cri.sock"), script, func(cmd *exec.Cmd) {
		cmd.ExtraFiles = u.listeners
		cmd.Env = append(append(cmd.Env, u.env...), fmt.Sprintf("LISTEN_FDS=%d", len(u.listeners)))
		cmd.Stderr = output
	})
}

// getUnix returns a page of a server on a unix socket.
func getUnix(t *testing.T, socket, path string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://metrics"+path, nil)
	testutil.Must(t, err)
	response, err := client.Do(request)
	testutil.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	testutil.Must(t, err)
	return string(body)
}

// TestMessagesToSystemd checks the messages from start to end. The program reports that it is ready although the engine
// is away. Its status has the error of the connection. Then it feeds the watchdog, reloads and stops.
func TestMessagesToSystemd(t *testing.T) {
	u := newUnit(t, "WATCHDOG_USEC=1000000")
	var output testutil.Buffer
	config := filepath.Join(u.dir, "config.yaml")
	write := func(text string) {
		testutil.Must(t, os.WriteFile(config, []byte(text), 0o600))
	}
	write("log-level: info\n")
	metrics := filepath.Join(u.dir, "metrics.sock")
	p := u.start(t, " --config="+config+" --metrics-bind-addr=unix://"+metrics, &output)
	ready := u.systemd.wait("READY=1")
	testutil.Assert(t, strings.Contains(ready, "STATUS=Serving CRI from memory: ") &&
		strings.Contains(ready, "no-engine.sock"), "ready with %q", ready)
	u.systemd.wait("WATCHDOG=1")
	u.systemd.wait("WATCHDOG=1")

	reload := func(text, wantLog string) {
		t.Helper()
		write(text)
		testutil.Must(t, p.Process.Signal(syscall.SIGHUP))
		message := u.systemd.wait("RELOADING=1")
		testutil.Assert(t, strings.Contains(message, "MONOTONIC_USEC="), "got %q", message)
		u.systemd.wait("READY=1")
		testutil.Until(t, wantLog, func() bool { return strings.Contains(output.String(), wantLog) })
	}
	reload("log-level: debug\ncni-gc: true\n", "take effect at the next restart")
	testutil.Must(t, p.answers(t.Context()))
	testutil.Until(t, "the new level counts", func() bool { return strings.Contains(output.String(), "level=debug") })
	reload("log-levle: debug\n", "did you mean")
	reloaded := `"msg":"reloaded"`
	if os.Geteuid() != 0 {
		reloaded = `"msg":"reloaded in part only` // the credentials of root cannot be read
	}
	reload("log-format: json\n", reloaded)
	testutil.Assert(t, strings.Count(output.String(), "settings=cni-gc") == 1,
		"the settings that need a restart are not named:\n%s", &output)
	flags := getUnix(t, metrics, "/flagz")
	testutil.Assert(t, strings.Contains(flags, "\nlog-format=json\n") && strings.Contains(flags, "\ncni-gc=false\n"),
		"not the settings in force: %s", flags)

	testutil.Must(t, p.Process.Signal(syscall.SIGTERM))
	u.systemd.wait("STOPPING=1")
	testutil.Check(t, <-p.ended, "after SIGTERM")
}

// A client that connects while the server restarts gets its answer from the next server, because systemd holds the
// socket.
func TestRestartWithoutAGap(t *testing.T) {
	u := newUnit(t)
	var output testutil.Buffer
	p := u.start(t, "", &output)
	for range 3 {
		testutil.Must(t, p.Process.Signal(syscall.SIGTERM))
		testutil.Must(t, <-p.ended)
		answered := testutil.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			// Without waiting for readiness: the connection itself must not be refused.
			return askVersion(ctx, filepath.Join(u.dir, "cri.sock"))
		})
		p = u.start(t, "", &output)
		testutil.Must(t, <-answered, "a request while the server restarted")
	}
}

// TestSeveralSockets: an operator may add a socket to the unit. systemd takes its connections, so it must be served.
func TestSeveralSockets(t *testing.T) {
	u := newUnit(t)
	u.listen(t, "other.sock")
	var output testutil.Buffer
	p := u.start(t, "", &output)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testutil.Check(t, askVersion(ctx, filepath.Join(u.dir, "other.sock")))
	testutil.Must(t, p.Process.Signal(syscall.SIGTERM))
	testutil.Check(t, <-p.ended, "after SIGTERM")
}

func TestCheckSelf(t *testing.T) {
	err := checkSelf(t.Context(), filepath.Join(t.TempDir(), "none.sock"), func() error { return nil })
	testutil.Assert(t, err != nil, "checkSelf succeeds for a socket without a server")
	u := newUnit(t)
	var output testutil.Buffer
	p := u.start(t, "", &output)
	stuck := errors.New("stuck")
	err = checkSelf(t.Context(), p.socket, func() error { return stuck })
	testutil.Assert(t, errors.Is(err, stuck), "a cache that makes no progress: %v", err)
	testutil.Check(t, checkSelf(t.Context(), p.socket, func() error { return nil }))
	// A stopped process does not answer, and does not feed the watchdog.
	testutil.Must(t, p.Process.Signal(syscall.SIGSTOP))
	testutil.Eventually(t, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err == nil && !strings.Contains(string(stat), ") T ") {
			err = fmt.Errorf("it is not stopped: %s", stat)
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	testutil.Assert(t, checkSelf(ctx, p.socket, func() error { return nil }) != nil, "a program that hangs passes")
}
