package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
)

const (
	// killRounds bounds how often signalTree lists the processes of a command: a command that forks between the listing
	// and the signals can leave new processes each time.
	killRounds = 10
	// deathTimeout bounds the wait for processes that were sent SIGKILL. A process in an uninterruptible system call
	// may take longer.
	deathTimeout = 2 * time.Second
)

// killTree kills the process pid, its descendants, and the rest of its session. The runtime makes each command a
// session leader, so an orphan is found unless it made a session of its own. Only processes in the container's cgroup
// are killed, see heldProcess. It returns when all of them are dead.
func (s *Service) killTree(ctx context.Context, pid int, containerID string) error {
	return s.signalTree(pid, containerID, func(pids []int) (int, error) {
		return s.killAll(ctx, pids, containerID)
	})
}

// hangUpTree sends SIGHUP once to each process that killTree would kill. It does not wait for their ends.
func (s *Service) hangUpTree(pid int, containerID string) error {
	signalled := map[int]bool{}
	return s.signalTree(pid, containerID, func(pids []int) (found int, err error) {
		for _, member := range pids {
			if signalled[member] {
				continue
			}
			signalled[member] = true
			found++
			if err := s.hangUp(member, containerID); err != nil {
				return found, err
			}
		}
		return found, nil
	})
}

// hangUp sends SIGHUP to the process pid if the process is in the container.
func (s *Service) hangUp(pid int, containerID string) error {
	p, err := s.hold(pid, containerID)
	if err != nil || p == nil {
		return err
	}
	defer p.release()
	return p.signal(unix.SIGHUP)
}

// signalTree lists the tree of the process pid and calls signal with it, until signal finds no new process. A process
// may fork between the listing and its signal. signalTree fails if the last of killRounds listings still had a new
// process, because that process may have forked, too.
func (s *Service) signalTree(pid int, containerID string, signal func(pids []int) (found int, err error)) error {
	for range killRounds {
		pids, err := s.tree(pid, containerID)
		if err != nil {
			return fmt.Errorf("finding the command's session: %w", err)
		}
		found, err := signal(pids)
		if err != nil || found == 0 {
			return err
		}
	}
	return errors.New("the command starts processes faster than they can be signalled")
}

// tree lists the process pid of a container, its descendants, and the members of its session.
func (s *Service) tree(pid int, containerID string) ([]int, error) {
	all, err := s.processesOf(containerID, pid)
	if err != nil {
		return nil, err
	}
	return proctable.Tree(all, pid), nil
}

// killAll kills the processes in pids, except processes outside of the container. It waits for their deaths, and
// returns how many it killed.
func (s *Service) killAll(ctx context.Context, pids []int, containerID string) (int, error) {
	var dying []*heldProcess
	defer func() {
		for _, p := range dying {
			p.release()
		}
	}()
	for _, pid := range pids {
		p, err := s.hold(pid, containerID)
		if err != nil {
			return 0, err
		}
		if p == nil {
			continue
		}
		dying = append(dying, p)
		if err := p.signal(unix.SIGKILL); err != nil {
			return 0, err
		}
	}
	return len(dying), waitDead(ctx, dying)
}

// waitDead waits for the end of all processes. It fails after deathTimeout, or when ctx ends.
func waitDead(ctx context.Context, dying []*heldProcess) error {
	const step = 100 * time.Millisecond // the longest delay until the end of ctx is noticed
	deadline := time.Now().Add(deathTimeout)
	for _, p := range dying {
		for !p.dead(step) {
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
