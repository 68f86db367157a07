package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/debian"
)

// hostName is the name of the machine's sshd in the known_hosts file.
const hostName = "node"

// environ is the environment of commands. The environment from sshd has no PATH for root.
const environ = "env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 " +
	"DEBIAN_FRONTEND=noninteractive "

// ssh is a run of ssh. All runs share one connection, which the first makes.
func (m *Machine) ssh(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", append([]string{"-F", "none", "-q",
		"-i", filepath.Join(m.image, keyFile), "-p", strconv.Itoa(m.port), "-l", "root",
		"-o", "UserKnownHostsFile=" + filepath.Join(m.image, knownHostsFile), "-o", "HostKeyAlias=" + hostName,
		"-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
		"-o", "ConnectTimeout=60", "-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=6",
		"-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "-o", "ControlPath=" + m.control()}, args...)...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// control is the socket of the shared connection. Each emulator has its own socket, because the connection to the
// previous emulator removes its socket late, when it notices the end.
func (m *Machine) control() string { return filepath.Join(m.dir, "ssh-"+strconv.Itoa(m.port)) }

// hangUp ends the shared connection: nothing of it must be in saved memory.
func (m *Machine) hangUp(ctx context.Context) error {
	if out, err := m.ssh(ctx, "-O", "exit", "127.0.0.1").CombinedOutput(); err != nil {
		return fmt.Errorf("end the connection: %w\n%s", err, out)
	}
	return nil
}

// command is a run of a program on the machine.
func (m *Machine) command(ctx context.Context, args []string) *exec.Cmd {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return m.ssh(ctx, "127.0.0.1", environ+strings.Join(quoted, " "))
}

// Run runs a program on the machine and returns its output without surrounding space; an error has the output, too.
func (m *Machine) Run(ctx context.Context, args ...string) (string, error) {
	out, err := m.command(ctx, args).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return text, nil
}

// Shell runs lines of a shell on the machine, see debian.Script.
func (m *Machine) Shell(ctx context.Context, lines string) (string, error) {
	return m.Run(ctx, debian.Script(lines)...)
}

// Stream runs a program on the machine and passes its output on. It returns the exit code.
func (m *Machine) Stream(ctx context.Context, stdout, stderr io.Writer, args ...string) (int, error) {
	cmd := m.command(ctx, args)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() && exit.ExitCode() != connectionFailed {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// connectionFailed is ssh's own exit code.
const connectionFailed = 255

// Listen makes the machine's port of 127.0.0.1 lead to an address that the host can reach, for as long as the machine
// is connected.
func (m *Machine) Listen(ctx context.Context, port int, host string) error {
	return m.forward(ctx, "-R", fmt.Sprintf("127.0.0.1:%d:%s", port, host))
}

// Reach makes an address of this network namespace, host:port, lead to the same address on the machine, for as long as
// the machine is connected.
func (m *Machine) Reach(ctx context.Context, address string) error {
	return m.forward(ctx, "-L", address+":"+address)
}

// ReachSocket makes a socket of this host lead to a socket on the machine, for as long as the machine is connected.
func (m *Machine) ReachSocket(ctx context.Context, local, remote string) error {
	return m.forward(ctx, "-L", local+":"+remote)
}

func (m *Machine) forward(ctx context.Context, direction, forward string) error {
	if out, err := m.ssh(ctx, "-O", "forward", direction, forward, "127.0.0.1").CombinedOutput(); err != nil {
		return fmt.Errorf("forward %s: %w\n%s", forward, err, out)
	}
	return nil
}

// Copy copies a file of the host to the machine, with its mode.
func (m *Machine) Copy(ctx context.Context, from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	cmd := m.command(ctx, []string{"sh", "-ec", `mkdir -p "$(dirname "$0")"; cat > "$0"; chmod "$1" "$0"`,
		to, fmt.Sprintf("%o", info.Mode().Perm())})
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, out)
	}
	return nil
}
