package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/log"
)

// endPause is the time between two checks for killed processes.
const endPause = 20 * time.Millisecond

// endAdd kills all processes of the pod's ADD, and returns when they have ended. After killDelay it fails, and the
// error names one process. DEL must not run while the ADD does, because later changes by the ADD would stay on the
// node.
//
// Plugins outlive this program when it is killed. Their environment shows which ADD they belong to: the plugin has
// CNI_COMMAND and CNI_CONTAINERID from libcni, and the programs that it starts inherit them. A process id on the disk
// could later belong to another process. The environment cannot, and it costs nothing while an ADD runs.
func endAdd(ctx context.Context, id string) error {
	late := time.Now().Add(killDelay)
	for first := true; ; first = false {
		pids, err := look(ctx, "/proc", id)
		if err != nil {
			return fmt.Errorf("look for plugins that still run the ADD of pod %s: %w", id, err)
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(late) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("the ADD of pod %s still runs: %w", id, &unkillableError{pid: pids[0]}),
				ctx.Err())
		}
		if first {
			log.G(ctx).WithFields(log.Fields{"podSandboxID": id, "pids": pids}).
				Info("killing CNI plugins of an unfinished ADD")
		}
		for _, pid := range pids {
			killWithGroup(pid)
		}
		select {
		case <-ctx.Done():
		case <-time.After(endPause):
		}
	}
}

// killWithGroup kills a process and its process group: a child that is being started has no environment yet.
func killWithGroup(pid int) {
	group, err := syscall.Getpgid(pid)     // before the kill, after which the process may be gone at once
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	// 0 and 1 do not name a group to kill(2).
	if err == nil && group > 1 && group != syscall.Getpgrp() {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
}

// look is like processesOfAdd, but returns when ctx ends. While the kernel blocks a process, it may also block a reader
// of the process's environment.
func look(ctx context.Context, proc, id string) ([]int, error) {
	var pids []int
	looked := make(chan error, 1)
	go func() {
		var err error
		pids, err = processesOfAdd(proc, id)
		looked <- err
	}()
	select {
	case err := <-looked:
		return pids, err
	case <-ctx.Done():
		return nil, fmt.Errorf("the kernel does not show the environment of a process, look for one in state D: %w",
			ctx.Err())
	}
}

// processesOfAdd returns the processes that run the pod's ADD. It looks only at processes in this PID namespace, which
// has the plugins and not the containers. proc is the root of procfs.
func processesOfAdd(proc, id string) ([]int, error) {
	namespace, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(proc, entry.Name())
		if in, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || in != namespace {
			continue // another PID namespace, or the process has just ended
		}
		if belongsToAdd(environ(dir), id) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func belongsToAdd(environ []string, id string) bool {
	return slices.Contains(environ, "CNI_COMMAND=ADD") && slices.Contains(environ, "CNI_CONTAINERID="+id)
}

// environ returns the environment of a process, without variables if it has ended. The kernel may hold a thread of a
// killed process whose main thread has ended. Then that thread has the environment.
func environ(dir string) []string {
	content, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err == nil && len(content) == 0 {
		threads, _ := filepath.Glob(filepath.Join(dir, "task/*/environ"))
		for _, thread := range threads {
			if content, _ = os.ReadFile(thread); len(content) > 0 {
				break
			}
		}
	}
	return strings.Split(string(content), "\x00")
}
