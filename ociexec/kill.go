package ociexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
)

// killRounds is the largest number of searches for new descendants.
const killRounds = 10

// endRuntime kills a runtime at work, and all that it has started. The runtime is stopped first and killed last. Until
// then it starts nothing more, and its processes stay its descendants.
func endRuntime(pid int) {
	_ = unix.Kill(pid, unix.SIGSTOP) // the runtime may have ended, here and below
	killDescendants(pid, nil)
	_ = unix.Kill(-pid, unix.SIGKILL)
	_ = unix.Kill(pid, unix.SIGKILL)
}

// killDescendants kills all descendants of a process and their sessions, until a search finds no new one. A process in
// a frozen cgroup dies when the cgroup thaws, before it runs any further. Children for which spare returns true live
// on, unless they are in a killed session. killDescendants returns the ids of the killed descendants.
func killDescendants(pid int, spare func(child proctable.Stat) bool) (killed map[int]bool) {
	killed = map[int]bool{}
	for range killRounds {
		all, err := proctable.All()
		if err != nil {
			return killed
		}
		for i := range all {
			if spare != nil && spare(all[i]) {
				all[i].Parent = 0
			}
		}
		before := len(killed)
		tree := proctable.Tree(all, pid)
		for _, victim := range all {
			if victim.PID != pid && !killed[victim.PID] && slices.Contains(tree, victim.PID) && kill(victim) {
				killed[victim.PID] = true
			}
		}
		if len(killed) == before {
			break
		}
	}
	return killed
}

// kill kills a process that was seen a moment ago, and reports whether there was one. Another process may have its id
// now, so kill compares the session.
func kill(seen proctable.Stat) bool {
	fd, err := unix.PidfdOpen(seen.PID, 0)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
		return unix.Kill(seen.PID, unix.SIGKILL) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	now, err := proctable.Read(seen.PID)
	return err == nil && now.Session == seen.Session && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// deathTimeout bounds the wait for a runtime that was sent SIGKILL.
const deathTimeout = 10 * time.Second

// endStart kills the runtime that was starting a command when its keeper was killed, and the runtime's own processes.
// The death of the keeper does not end them. endStart finds them by the command's directory dir in their command lines.
// A runtime that has not reached its execve(2) still has the command line of its keeper. endStart returns when no such
// process is left, or with an error at the end of ctx.
func endStart(ctx context.Context, keeper, dir string) error {
	session, err := unix.Getsid(0)
	if err != nil {
		return os.NewSyscallError("getsid", err)
	}
	before, after := []byte(keeperLine(keeper)), []byte(dir+"/"+pidFile)
	for {
		all, err := proctable.All()
		if err != nil {
			return err
		}
		left := 0
		for _, p := range all {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
			switch {
			case err != nil, p.PID == os.Getpid():
			case bytes.Equal(line, before), bytes.Contains(line, after):
				endRuntime(p.PID)
				left++
			case len(line) == 0 && p.Session == session && hasProgram(p.PID) && !isNameless(p.PID):
				left++ // during execve(2) a command line is empty: this may be the runtime
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the runtime does not die of SIGKILL") // without ctx.Err(): ctx is not the caller's
		case <-time.After(time.Millisecond):
		}
	}
}

// hasProgram reports whether a process runs a program. Kernel threads and ended processes have none.
func hasProgram(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

// isNameless reports whether a process has an empty command line outside of execve(2). During execve(2) the command
// line is empty, too, but the end of the environment in stat is 0. If that end differs between the two reads of stat,
// an execve(2) came in between.
func isNameless(pid int) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	before, err := statusOf(dir)
	line, lineErr := os.ReadFile(filepath.Join(dir, "cmdline"))
	after, afterErr := statusOf(dir)
	return errors.Join(err, lineErr, afterErr) == nil && len(line) == 0 &&
		before["envEnd"] != "0" && before["envEnd"] == after["envEnd"]
}

// killStrays kills commands that a dead runtime of a dead keeper has left in a container. Such a command began after
// the given time, in ticks since the boot, and its parent is an ancestor of this program. The engine's commands have a
// shim above them.
func killStrays(container string, since uint64) {
	all, err := proctable.All()
	if err != nil || container == "" {
		return
	}
	parents := map[int]int{}
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	ancestors := map[int]bool{}
	for pid := os.Getppid(); pid != 0 && !ancestors[pid]; pid = parents[pid] {
		ancestors[pid] = true
	}
	for _, p := range all {
		if !ancestors[p.Parent] || !proctable.InContainer(p.PID, container) {
			continue
		}
		if began(p.PID) >= since {
			killDescendants(p.PID, nil)
			kill(p)
		}
	}
}

// began returns when a process began, in ticks since the boot, and 0 for a process that is gone.
func began(pid int) uint64 {
	status, err := statusOf("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return 0
	}
	ticks, err := strconv.ParseUint(status["start"], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

// ticksNow is the time since the boot in the ticks of /proc, which are 1/100 s on all of Go's platforms.
func ticksNow() (uint64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return uint64(now.Nano() / int64(10*time.Millisecond)), err
}
