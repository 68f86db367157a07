package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killRounds bounds how often new descendants are looked for: a command that
	// forks while it is being killed can leave some behind each time.
	killRounds = 10
	// deathTimeout bounds the wait for processes that were sent SIGKILL. One in
	// an uninterruptible system call may take longer.
	deathTimeout = 2 * time.Second
)

// killTree kills the process pid, its descendants, and what is left of its session: the runtime makes each command a
// session leader, so that a process whose parent has died is still found, unless it made a session of its own. Only
// processes in the container's cgroup are killed, and each is held by a file descriptor while that is checked: a
// process id that was used again hits nobody else. It returns when all of them are dead.
func (s *Service) killTree(ctx context.Context, pid int, containerID string) error {
	for range killRounds {
		victims, err := s.tree(pid, containerID)
		if err != nil {
			return err
		}
		killed, err := killAll(ctx, victims, containerID)
		if err != nil || killed == 0 {
			return err
		}
	}
	return errors.New("it starts processes faster than they can be killed")
}

// tree lists the process pid of a container, its descendants, and the members of its session.
func (s *Service) tree(pid int, containerID string) ([]int, error) {
	all, err := s.processesOf(containerID, pid)
	if err != nil {
		return nil, err
	}
	in := map[int]bool{pid: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.pid] && (in[p.parent] || p.session == pid) {
				in[p.pid] = true
				grown = true
			}
		}
	}
	victims := make([]int, 0, len(in))
	for pid := range in {
		victims = append(victims, pid)
	}
	return victims, nil
}

// killAll kills those of the processes that are in the container, waits for
// their deaths, and returns how many there were.
func killAll(ctx context.Context, pids []int, containerID string) (int, error) {
	var dying []int // pidfds
	defer func() {
		for _, fd := range dying {
			unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("pidfd_open %d: %w", pid, err)
		}
		if !inContainer(pid, containerID) || isDead(fd) {
			unix.Close(fd)
			continue
		}
		dying = append(dying, fd)
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("killing process %d: %w", pid, err)
		}
	}
	return len(dying), waitDead(ctx, dying)
}

// waitDead waits until every pidfd is readable, which is when its process has ended.
func waitDead(ctx context.Context, pidfds []int) error {
	const step = 100 * time.Millisecond // how late the end of ctx may be noticed
	deadline := time.Now().Add(deathTimeout)
	for _, fd := range pidfds {
		for !pollDead(fd, step) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return errors.New("a process does not die of SIGKILL")
			}
		}
	}
	return nil
}

func isDead(pidfd int) bool { return pollDead(pidfd, 0) }

// pollDead reports whether the process has ended, within the wait given.
func pollDead(pidfd int, wait time.Duration) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(wait/time.Millisecond))
	return err == nil && n > 0
}

// inContainer reports whether the cgroup of a process is the container's: every
// engine and cgroup driver has the container's id in its path.
func inContainer(pid int, containerID string) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && bytes.Contains(content, []byte(containerID))
}
