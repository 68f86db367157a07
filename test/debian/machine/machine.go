// Package machine boots a Debian root file system in new namespaces, with systemd as the first process. The machine is
// a node to install packages on. The node cannot reach the host's services, network or files. The node ends with its
// namespaces.
package machine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/debian"
)

//go:embed boot.sh
var bootScript string

// bootTime bounds the time until systemd has started everything.
const bootTime = 2 * time.Minute

// Options are the settings of a machine. All but Address are required.
type Options struct {
	// Root has the root file system in its directory root. The machine does not write to it.
	Root string
	// Dir is the directory for the machine's writes. Boot makes it, and Close removes it.
	Dir string
	// Share is a directory that the machine sees at /mnt.
	Share string
	// Address is the address of a bridge that leads nowhere, with its prefix length. Without it, the machine has
	// loopback addresses alone.
	Address string
}

// Machine is a running machine. Its methods must not be called concurrently, except Run.
type Machine struct {
	dir, cgroup string
	cmd         *exec.Cmd
	// pid is the process id of systemd in the host's PID namespace.
	pid int
}

// Boot starts a machine and waits until its systemd has started everything.
func Boot(ctx context.Context, opts Options) (_ *Machine, err error) {
	m := inDir(opts.Dir)
	for _, dir := range []string{"upper", "work", "root", "docker", "containerd"} {
		if err := os.MkdirAll(filepath.Join(opts.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(opts.Dir, "console.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	controllers, err := m.makeCgroups()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	var join strings.Builder
	for _, dir := range cgroups.Find(m.cgroup) {
		fmt.Fprintf(&join, "echo $$ > %s/cgroup.procs; ", dir)
	}
	// The shell enters the cgroups first, so that they become the root of the new cgroup namespace.
	m.cmd = exec.Command("sh", "-ec", join.String()+
		`exec unshare --pid --fork --kill-child --mount --net --ipc --uts --cgroup sh -c "$BOOT"`)
	m.cmd.Env = append(os.Environ(), "BOOT="+bootScript, "ROOT="+filepath.Join(opts.Root, "root"), "DIR="+opts.Dir,
		"SHARE="+opts.Share, "ADDRESS="+opts.Address,
		"CONTROLLERS="+strings.Join(controllers, " "))
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.waitBooted(ctx); err != nil {
		console, _ := os.ReadFile(log.Name()) // only for the text of the error
		return nil, errors.Join(fmt.Errorf("the machine did not boot: %w\n%s", err, console), m.Close())
	}
	return m, nil
}

// inDir returns a machine that has not booted yet. dir is the machine's directory.
func inDir(dir string) *Machine {
	return &Machine{dir: dir, cgroup: filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir)}
}

// Running is a running machine that another process has booted. Close must not be called.
func Running(pid int) *Machine { return &Machine{pid: pid} }

// PID is the process id of the machine's systemd in the host's PID namespace.
func (m *Machine) PID() int { return m.pid }

// waitBooted finds the machine's systemd and waits until it has started everything.
func (m *Machine) waitBooted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	return debian.Wait(ctx, func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", m.cmd.Process.Pid))
		if err != nil {
			return err
		}
		if m.pid, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
			return err
		}
		state, err := m.Run(ctx, "systemctl", "is-system-running")
		if err != nil && !strings.Contains(err.Error(), "degraded") {
			return fmt.Errorf("%s: %w", state, err)
		}
		return nil
	})
}

// Run runs a program on the machine and returns its output without surrounding space; an error has the output, too.
func (m *Machine) Run(ctx context.Context, args ...string) (string, error) {
	enter := []string{"-t", strconv.Itoa(m.pid), "-m", "-p", "-n", "-i", "-u", "-C", "-r", "-w", "--",
		"env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	out, err := exec.CommandContext(ctx, "nsenter", append(enter, args...)...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return text, nil
}

// Shell runs lines of a shell script on the machine. A line that begins with the word not must fail. All other lines
// must succeed.
func (m *Machine) Shell(ctx context.Context, lines string) (string, error) {
	return m.Run(ctx, debian.Script(lines)...)
}

// Journal returns the end of the machine's log, for the text of an error.
func (m *Machine) Journal(ctx context.Context) string {
	text, err := m.Run(ctx, "journalctl", "--no-pager", "-n", "60", "-u", "cri*", "-u", "kubelet*", "-u", "standalone",
		"-u", "docker")
	if err != nil {
		return err.Error()
	}
	return text
}

// Remove removes the cgroups and files of a machine whose process was killed. dir is the machine's directory.
func Remove(dir string) error { return inDir(dir).Close() }

// Close kills all processes of the machine and removes its files.
func (m *Machine) Close() error {
	if m.cmd != nil && m.cmd.Process != nil {
		_ = m.cmd.Process.Kill() // its child, the first process of the namespaces, ends with it (--kill-child)
		_ = m.cmd.Wait()         // killed
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootTime) // the caller's context may have ended
	defer cancel()
	return debian.Wait(ctx, func() error { return errors.Join(cgroups.Remove(m.cgroup), os.RemoveAll(m.dir)) })
}
