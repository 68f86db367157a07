package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestUnits starts, reloads, restarts, crashes and stops the service under systemd, without an engine. Each step checks
// the state that systemd reports.
func TestUnits(t *testing.T) {
	m := boot(t)
	testutil.Until(t, "the service is ready", func() bool {
		state, _ := m.run("systemctl", "is-active", "criadapter.service")
		return state == "active"
	})
	text := m.show("StatusText")
	testutil.Assert(t, strings.HasPrefix(text, "Serving CRI from memory: connect to Docker Engine"),
		"without an engine its status is %q", text)
	for property, want := range map[string]string{
		"KillMode": "process", "OOMScoreAdjust": "-999", "LimitNOFILE": "1048576", "Delegate": "yes",
		"WatchdogUSec": "1min", "Type": "notify",
	} {
		testutil.Equal(t, m.show(property), want, "%s", property)
	}
	testutil.Equal(t, m.must("stat", "-c", "%a %U:%G", "/run/criadapter/criadapter.sock"), "600 root:root",
		"the socket")
	m.hardened()
	m.reload()
	m.restartWithoutAGap()
	m.crash()
	m.hang()
	m.must("systemctl", "stop", "criadapter.service")
	testutil.Equal(t, m.show("Result"), "success", "the result of a stop")
	m.answered("a client's request starts the stopped service")
}

// answered runs a client, which must get an answer. Its exit code is 1 without an engine, and 2 without an answer.
func (m *machine) answered(when string) {
	m.t.Helper()
	output, code := m.run("criadapter", "status", "--timeout", "1m")
	testutil.Assert(m.t, code == 1 && strings.HasPrefix(output, "criadapter "),
		"%s: exit code %d: %s", when, code, output)
}

// reload reloads the service and waits until the program reports it. The process must be the same.
func (m *machine) reload() {
	m.t.Helper()
	pid := m.show("MainPID")
	m.must("systemctl", "reload", "criadapter.service")
	testutil.Equal(m.t, m.show("MainPID"), pid, "the process after a reload")
	testutil.Until(m.t, "the reload is in the log", func() bool {
		return strings.Contains(m.must("journalctl", "--no-pager", "-u", "criadapter.service"), "reloaded")
	})
}

// restartWithoutAGap lets clients ask while the service restarts. Each must get an answer.
func (m *machine) restartWithoutAGap() {
	m.t.Helper()
	script :=
		`systemctl restart criadapter.service & for i in 1 2 3 4 5 6 7 8 9 10; do criadapter status --timeout 1m ` +
			`>/dev/null 2>&1; echo $?; done; wait`
	pid := m.show("MainPID")
	output := m.must("sh", "-c", script)
	want := strings.TrimSpace(strings.Repeat("1\n", 10))
	testutil.Assert(m.t, output == want, "the clients' exit codes are %q", output)
	testutil.Assert(m.t, m.show("MainPID") != pid, "the service did not restart")
}

// crash kills the service. systemd must start it again.
func (m *machine) crash() {
	m.t.Helper()
	m.must("kill", "-KILL", m.show("MainPID"))
	m.answered("a client's request just after a crash")
	testutil.Until(m.t, "the service was started again", func() bool { return m.show("NRestarts") == "1" })
}

// hang stops the process with SIGSTOP. The watchdog, whose time the test shortens, must end the process.
func (m *machine) hang() {
	m.t.Helper()
	dropIn := filepath.Join(m.root, "etc/systemd/system/criadapter.service.d")
	testutil.Must(m.t, os.MkdirAll(dropIn, 0o755))
	if err := os.WriteFile(filepath.Join(dropIn, "test.conf"), []byte("[Service]\nWatchdogSec=5\nTimeoutAbortSec=1\n"),
		0o644); err != nil {
		m.t.Fatal(err)
	}
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "restart", "criadapter.service")
	pid := m.show("MainPID")
	m.must("kill", "-STOP", pid)
	testutil.Eventually(m.t, func() error {
		if now := m.show("MainPID"); now == pid || now == "0" {
			return fmt.Errorf("process %s still runs", pid)
		}
		return nil
	})
	log := m.must("cat", "/dev/kmsg")
	testutil.Assert(m.t, strings.Contains(log, "Watchdog timeout"), "the watchdog did not end the service:\n%s", log)
	m.answered("after the watchdog")
}
