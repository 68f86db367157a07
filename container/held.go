package container

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
)

// heldProcess is a process of a container. A file descriptor holds it, so that a signal never reaches another process
// with the same id. Kernels before 5.3 have no such descriptors, and then fd is -1: the cgroup is read once more right
// before each signal. A signal could reach another process only if the kernel reused the id within those microseconds.
type heldProcess struct {
	pid, fd     int
	containerID string
}

// hold returns the process pid of a container, nil when the container has no such process. The caller releases it.
func (s *Service) hold(pid int, containerID string) (*heldProcess, error) {
	fd, err := s.pidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, nil
	case errors.Is(err, unix.ENOSYS):
		fd = -1
	case err != nil:
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	p := &heldProcess{pid: pid, fd: fd, containerID: containerID}
	if !proctable.InContainer(pid, containerID) || p.dead(0) {
		p.release()
		return nil, nil
	}
	return p, nil
}

func (p *heldProcess) release() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
}

// signal sends a signal. A process that has ended is success.
func (p *heldProcess) signal(signal unix.Signal) error {
	var err error
	switch {
	case p.fd >= 0:
		err = unix.PidfdSendSignal(p.fd, signal, nil, 0)
	case proctable.InContainer(p.pid, p.containerID):
		err = unix.Kill(p.pid, signal)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", p.pid, err)
	}
	return nil
}

// dead waits at most wait for the end of the process, and reports whether the process has ended.
func (p *heldProcess) dead(wait time.Duration) bool {
	if p.fd >= 0 { // a pidfd is readable once its process has ended
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(wait/time.Millisecond))
		return err == nil && n > 0
	}
	const step = 5 * time.Millisecond
	for end := time.Now().Add(wait); ; time.Sleep(step) {
		if !proctable.Lives(p.pid) || !proctable.InContainer(p.pid, p.containerID) {
			return true
		}
		if !time.Now().Before(end) {
			return false
		}
	}
}
