// Package machine restores the sysctls that a real kubelet changes for the whole machine.
package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/test/rig/cache"
)

// kubeletSysctls are the sysctls that a kubelet sets at its start. They apply to the whole machine, since no namespace
// has its own values.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// stay says that one run uses the machine's sysctls. Runs with a kubelet can overlap, because all kubelets set the same
// values. The first run saves the previous values, and the last one restores them.
type stay struct {
	dir   string
	users *os.File // has a shared lock during the stay; the lock ends with the process
}

// enter begins a stay. It waits while another run enters or leaves. dir has the lock files of all runs.
func enter(ctx context.Context, dir string) (_ *stay, err error) {
	s := &stay{dir: dir}
	door, err := lock(ctx, filepath.Join(dir, "machine.door"), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, door.Close()) }()
	if s.users, err = lock(ctx, filepath.Join(dir, "machine.users"), unix.LOCK_SH); err != nil {
		return nil, err
	}
	if err := s.keep(); err != nil {
		return nil, errors.Join(err, s.users.Close())
	}
	return s, nil
}

// leave ends the stay. The last run to leave restores the saved values, even if another run was killed.
func (s *stay) leave() (err error) {
	// There is no time limit, because other runs hold the lock only for moments.
	door, err := lock(context.Background(), filepath.Join(s.dir, "machine.door"), unix.LOCK_EX)
	if err != nil {
		return errors.Join(err, s.users.Close())
	}
	defer func() { err = errors.Join(err, s.users.Close(), door.Close()) }()
	switch err := unix.Flock(int(s.users.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil // another run still uses the sysctls
	case err != nil:
		return err
	}
	return s.restore()
}

// lock opens a file and locks it.
func lock(ctx context.Context, path string, how int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- unix.Flock(int(file.Fd()), how) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		err = ctx.Err() // the goroutine ends with the process, which ends soon
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

// keep saves the present values in a file, unless an earlier run has saved them.
func (s *stay) keep() error {
	path, err := s.kept()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	values := make(map[string]string)
	for _, name := range kubeletSysctls {
		value, err := readSysctl(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without keyrings has no such sysctl, and the kubelet logs an error
		}
		if err != nil {
			return err
		}
		values[name] = value
	}
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	// The rename makes the file whole or not at all, also if this process is killed.
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// restore writes the saved values back where they differ. It removes their file when all are restored.
func (s *stay) restore() error {
	path, err := s.kept()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var values map[string]string
	if err := json.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("%s: %w; remove it", path, err)
	}
	var errs []error
	for name, value := range values {
		now, err := readSysctl(name)
		if err == nil && now != value {
			err = os.WriteFile(sysctlPath(name), []byte(value), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("restore sysctl %s=%s: %w", strings.ReplaceAll(name, "/", "."), value, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // the file stays, so that the next run restores the values
	}
	return os.Remove(path)
}

// kept is the file with the values before the first run. Its name contains the boot id, so that no run after a reboot
// reads it.
func (s *stay) kept() (string, error) {
	boot, err := readSysctl("kernel/random/boot_id")
	return filepath.Join(s.dir, "machine.sysctls-"+boot), err
}

// enterMachine is enter with the directory of the cache.
func enterMachine(ctx context.Context) (*stay, error) {
	dir, err := cache.Dir()
	if err != nil {
		return nil, err
	}
	return enter(ctx, dir)
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

func readSysctl(name string) (string, error) {
	value, err := os.ReadFile(sysctlPath(name))
	return strings.TrimSpace(string(value)), err
}
