package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/rig/logtail"
)

const (
	// bootTime bounds the time from power on to the end of systemd's start, on a busy host.
	bootTime = 90 * time.Minute
	// resumeTime bounds the time until a machine has resumed from saved memory.
	resumeTime = 20 * time.Minute
)

// Options say how a machine is made.
type Options struct {
	// Kind is the machine's kind, and Image the directory of its image, which is not written to.
	Kind  Kind
	Image string
	// Dir is an existing directory for what the machine writes.
	Dir string
	// Share is a directory whose files the machine sees at /mnt, as they are now.
	Share string
}

// Address is the machine's address in QEMU's own network.
const Address = "10.0.2.15"

// Machine is an emulated computer. Its methods must not be called concurrently, except Run and Shell.
type Machine struct {
	kind             Kind
	image, dir, disk string

	cmd *exec.Cmd
	// ended is closed when the emulator has ended.
	ended chan struct{}
	// port leads to the machine's sshd.
	port int
}

// Start resumes a machine from the image's memory, waits until it takes commands, and sets its clock.
func Start(ctx context.Context, opts Options) (_ *Machine, err error) {
	m := &Machine{kind: opts.Kind, image: opts.Image, dir: opts.Dir, disk: filepath.Join(opts.Dir, diskFile)}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.powerOff())
		}
	}()
	if err := makeOverlay(ctx, filepath.Join(opts.Image, diskFile), m.disk); err != nil {
		return nil, err
	}
	if err := makeShareDisk(ctx, m.shareDisk(), opts.Share); err != nil {
		return nil, err
	}
	if err := m.emulate("-incoming", "exec:cat "+filepath.Join(opts.Image, memoryFile)); err != nil {
		return nil, err
	}
	if err := m.connect(ctx, resumeTime); err != nil {
		return nil, err
	}
	// The kernel in the saved memory read the share's disk when it was empty. blockdev drops the cached blocks.
	_, err = m.Shell(ctx, fmt.Sprintf("date --set @%d\nblockdev --flushbufs /dev/vdb\nmount -o ro /dev/vdb /mnt",
		time.Now().Unix()))
	return m, err
}

// shareDisk is the file of the disk with the share.
func (m *Machine) shareDisk() string { return filepath.Join(m.dir, "share.raw") }

// PowerOn boots the machine from its disk and waits until systemd has started everything. A running machine must first
// be ended by CutPower.
func (m *Machine) PowerOn(ctx context.Context) error {
	if err := m.powerOn(ctx); err != nil {
		return err
	}
	_, err := m.Run(ctx, "mount", "-o", "ro", "/dev/vdb", "/mnt")
	return err
}

func (m *Machine) powerOn(ctx context.Context) error {
	if err := m.emulate(); err != nil {
		return err
	}
	if err := m.connect(ctx, bootTime); err != nil {
		return err
	}
	return m.waitBooted(ctx)
}

// Reboot reboots the machine as its operator does, and waits until systemd has started everything.
func (m *Machine) Reboot(ctx context.Context) error {
	const bootID = "/proc/sys/kernel/random/boot_id"
	before, err := m.Run(ctx, "cat", bootID)
	if err != nil {
		return err
	}
	if _, err := m.Run(ctx, "systemctl", "reboot", "--no-block"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := m.await(ctx, func() error {
		now, err := m.Run(ctx, "cat", bootID)
		if err == nil && now == before {
			err = errors.New("the machine has not shut down")
		}
		return err
	}); err != nil {
		return err
	}
	if err := m.waitBooted(ctx); err != nil {
		return err
	}
	_, err = m.Run(ctx, "mount", "-o", "ro", "/dev/vdb", "/mnt")
	return err
}

// waitBooted waits until systemd says that all is started. A failed unit is not an error.
func (m *Machine) waitBooted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	_, err := m.Shell(ctx, `systemctl is-system-running --wait || systemctl is-system-running | grep degraded`)
	return err
}

// CutPower ends the machine between two instructions: what its kernel has not written to the disk is lost.
func (m *Machine) CutPower() error { return m.powerOff() }

// Close ends the machine, at once. What it wrote stays in its directory.
func (m *Machine) Close() error { return m.powerOff() }

// emulate starts the emulator.
func (m *Machine) emulate(more ...string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(m.emulatorLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	m.port = port
	cmd := exec.Command("nice", slices.Concat([]string{"-n", "19", m.kind.emulator.Program}, m.kind.hardware(),
		m.attached(), more)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	m.cmd, m.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed, or its log says why it ended
	}()
	return nil
}

// attached returns the emulator's arguments for the files and the port of the host that its devices use.
func (m *Machine) attached() []string {
	return []string{
		"-serial", "file:" + m.console(), "-qmp", "unix:" + m.monitor() + ",server,nowait",
		"-kernel", filepath.Join(m.image, kernelFile), "-initrd", filepath.Join(m.image, initrdFile),
		"-drive", "if=virtio,format=qcow2,file=" + m.disk,
		"-drive", "if=virtio,format=raw,readonly=on,file=" + m.shareDisk(),
		"-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:" + strconv.Itoa(m.port) + "-:22",
	}
}

func (m *Machine) emulatorLog() string { return filepath.Join(m.dir, "emulator.log") }
func (m *Machine) console() string     { return filepath.Join(m.dir, "console.log") }
func (m *Machine) monitor() string     { return filepath.Join(m.dir, "monitor") }

// powerOff ends the emulator, if it runs.
func (m *Machine) powerOff() error {
	if m.ended == nil {
		return nil
	}
	err := m.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-m.ended
	return err
}

// connect waits until the machine takes commands.
func (m *Machine) connect(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return m.await(ctx, func() error {
		_, err := m.Run(ctx, "true")
		return err
	})
}

// await repeats check until it returns nil, the emulator ends, or ctx ends. The error has what the console and the
// emulator said.
func (m *Machine) await(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-m.ended:
			cancel(errors.New("the emulator has ended"))
		case <-stop:
			cancel(nil)
		}
	}()
	if err := debian.Wait(ctx, check); err != nil {
		return fmt.Errorf("the machine does not answer: %w, %w\n%s\n%s", err, context.Cause(ctx),
			logtail.Read(m.emulatorLog(), 2<<10), logtail.Read(m.console(), 4<<10))
	}
	return nil
}

// freePort finds a port of 127.0.0.1 that nothing listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
