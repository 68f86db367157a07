package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// machine is a systemd with the units. It ends with the test.
type machine struct {
	t *testing.T
	// pid is the process of systemd, and root the path to its root file system from the host.
	pid  int
	root string
}

func boot(t *testing.T) *machine {
	t.Helper()
	env := rigenv.Require(t)
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		t.Skip("systemd is not installed, and this test runs the units under it")
	}
	dir, err := os.MkdirTemp(env.WorkDir, "systemd")
	testutil.Must(t, err)
	cgroups := ownCgroups(t)
	units, err := filepath.Abs("../../contrib/systemd")
	testutil.Must(t, err)
	// The shell enters the cgroups first, because a new cgroup namespace has its maker's cgroup as root.
	cmd := exec.Command("sh", "-ec",
		`for dir in $0; do echo $$ > "$dir/cgroup.procs"; done; exec unshare --cgroup --pid --fork --kill-child `+
			`--mount --uts --ipc --net bash "$@"`,
		strings.Join(cgroups, " "), "testdata/boot.sh", dir, env.Criadapter, units)
	var output testutil.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testutil.Must(t, cmd.Start())
	m := &machine{t: t}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(m.root, "dev/kmsg"))
			t.Logf("boot: %s\nsystemd: %s", &output, log)
		}
		_ = cmd.Process.Kill() // --kill-child ends systemd and its services as well
		_ = cmd.Wait()
	})
	testutil.Eventually(t, func() error { return m.find(cmd.Process.Pid) })
	return m
}

// find finds systemd among the children of unshare.
func (m *machine) find(parent int) error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		return fmt.Errorf("the children are %q", children)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return err
	}
	if name := strings.TrimSpace(string(name)); name != "systemd" {
		return fmt.Errorf("%s still runs", name)
	}
	m.pid, m.root = pid, fmt.Sprintf("/proc/%d/root", pid)
	return nil
}

// ownCgroups makes a cgroup in each hierarchy that systemd uses. With cgroup v1 these are the hierarchies systemd and
// unified, with cgroup v2 the only hierarchy.
func ownCgroups(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{ownCgroup(t, "/sys/fs/cgroup")}
	}
	own := []string{ownCgroup(t, "/sys/fs/cgroup/systemd")}
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil {
		own = append(own, ownCgroup(t, "/sys/fs/cgroup/unified"))
	}
	return own
}

// ownCgroup makes a cgroup below root. When the test ends it is removed with all cgroups in it.
func ownCgroup(t *testing.T, root string) string {
	t.Helper()
	dir, err := os.MkdirTemp(root, "criadapter-test")
	testutil.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for ctx.Err() == nil {
			_ = cgroups.RemoveTree(dir)
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				return
			}
			time.Sleep(50 * time.Millisecond) // killed processes may still be ending
		}
		t.Errorf("%s is left", dir)
	})
	return dir
}

// run runs a command on the machine and returns what it prints and its exit code.
func (m *machine) run(args ...string) (string, int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter",
		append([]string{"-t", strconv.Itoa(m.pid), "-m", "-p", "-u", "-i", "-n", "-r", "-w", "--"}, args...)...)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	testutil.Require(m.t, err == nil || errors.As(err, &exit), "%q: %v", args, err)
	return strings.TrimSpace(string(output)), cmd.ProcessState.ExitCode()
}

// must is run for a command that must succeed.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	output, code := m.run(args...)
	testutil.Require(m.t, code == 0, "%q: exit code %d: %s", args, code, output)
	return output
}

// show returns a property of the service.
func (m *machine) show(property string) string {
	m.t.Helper()
	return m.must("systemctl", "show", "--value", "-p", property, "criadapter.service")
}
