package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

const (
	// restartPause is the pause after which a killed criadapter is started again, as by systemd with RestartSec.
	restartPause = time.Second
	// shortLeast and shortMost bound the limit, in percent of the memory that criadapter uses without a limit.
	shortLeast, shortMost = 40, 90
	// leavePatience bounds the time until the processes of a cgroup have left it.
	leavePatience = 5 * time.Second
)

// littleMemory runs criadapter during the fault in a cgroup with less memory than it uses. The kernel reclaims memory
// there, which makes criadapter slow, and kills it in the middle of its work. A killed criadapter starts again in the
// cgroup. The running criadapter must restart, too, because its memory counts for its old cgroup.
func (v victims) littleMemory(ctx context.Context, f fault) error {
	server := v.cluster.Server.Adapter
	used, err := ownMemory(server.PID())
	if err != nil {
		return err
	}
	limit := shortage(f.Seed, used)
	group, err := newMemoryGroup(v.memoryGroup, limit)
	if err != nil {
		return err
	}
	server.Kill()
	killed := 0
	end := time.Now().Add(f.Lasts)
	for err == nil && ctx.Err() == nil && time.Now().Before(end) {
		if err = startIn(group, server); err != nil {
			break
		}
		select {
		case <-server.Ended():
			killed++
			err = killedByKernel(server)
			_ = pace.Sleep(ctx, restartPause)
		case <-time.After(time.Until(end)):
		case <-ctx.Done():
		}
	}
	server.Kill()
	say("criadapter used %d kB, could use %d kB, and was killed %d times", used>>10, limit>>10, killed)
	return errors.Join(err, group.remove(), server.Start(context.WithoutCancel(ctx)))
}

// shortage is the limit of a fault.
func shortage(seed uint64, used int64) int64 {
	random := rand.New(rand.NewPCG(seed, seed))
	return used * int64(shortLeast+random.IntN(shortMost-shortLeast+1)) / 100
}

// startIn starts criadapter and moves it into the cgroup before it has used much memory.
func startIn(group memoryGroup, server *adapter.Server) error {
	if err := server.Launch(); err != nil {
		return err
	}
	if pid := server.PID(); pid != 0 {
		return group.add(pid)
	}
	return nil
}

// killedByKernel returns an error for a criadapter that ended in another way than by SIGKILL.
func killedByKernel(server *adapter.Server) error {
	var exit *exec.ExitError
	if errors.As(server.ExitError(), &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("criadapter with little memory ended by itself: %w; the end of its log:\n%s", server.ExitError(),
		server.LogTail())
}

// ownMemory is a process's memory in bytes, without files that are mapped, such as its program: they count for the
// cgroup that read them first.
func ownMemory(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0, fmt.Errorf("the memory of process %d: %q: %w", pid, text, err)
	}
	return (resident - shared) * int64(os.Getpagesize()), nil
}

// memoryGroup is a cgroup with the controller memory.
type memoryGroup struct {
	// root is the directory of the hierarchy, and name the path of the cgroup below it.
	root, name string
}

// errNoMemoryController says that there are no cgroups with the controller memory.
var errNoMemoryController = errors.New("the control groups here have no controller memory")

// newMemoryGroup makes a cgroup with a limit in bytes. Its name is a path below the root.
func newMemoryGroup(name string, limit int64) (memoryGroup, error) {
	for _, at := range []struct{ root, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		if _, err := os.Stat(filepath.Join(at.root, "cgroup.procs")); err != nil {
			continue // the other version of cgroups
		}
		group := memoryGroup{root: at.root, name: name}
		err := cgroup.Make(group.file(""))
		if err == nil {
			err = writeExisting(group.file(at.file), strconv.FormatInt(limit, 10))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errNoMemoryController
		}
		if err != nil {
			err = errors.Join(err, cgroups.Remove(name))
		}
		return group, err
	}
	return memoryGroup{}, errNoMemoryController
}

func (g memoryGroup) file(name string) string { return filepath.Join(g.root, g.name, name) }

// add moves a process into the cgroup.
func (g memoryGroup) add(pid int) error { return moveTo(g.file(procs), pid) }

// procs is the file with the processes of a cgroup.
const procs = "cgroup.procs"

// moveTo writes a process id to the file procs of a cgroup. It ignores a process that has ended.
func moveTo(file string, pid int) error {
	err := writeExisting(file, strconv.Itoa(pid))
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// remove removes the cgroup. Children that criadapter left there, such as CNI plugins, go to the root.
func (g memoryGroup) remove() error {
	for end := time.Now().Add(leavePatience); ; time.Sleep(leavePatience / 50) {
		text, err := os.ReadFile(g.file(procs))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err == nil {
				err = moveTo(filepath.Join(g.root, procs), pid)
			}
			if err != nil {
				return err
			}
		}
		// A process that ends is in its cgroup for a moment longer.
		if err = cgroups.Remove(g.name); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// writeExisting writes a file without making it.
func writeExisting(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
