// Package machine guards what a real kubelet changes of the whole machine, where tests run one.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/rig/cache"
)

// kubeletSysctls are what a kubelet sets at its start, for the whole machine: no namespace has values of its own.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// lockMachine waits until no other run with a kubelet is at work on the machine: each would take the other's values
// for those to restore. The lock ends with the file or the process.
func lockMachine(ctx context.Context) (*os.File, error) {
	dir, err := cache.Dir() // there, because the programs are in it
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "cluster.lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) }()
	select {
	case err = <-locked:
	case <-time.After(time.Second):
		fmt.Println("waiting for another run with a kubelet …")
		select {
		case err = <-locked:
		case <-ctx.Done():
			err = ctx.Err() // the process ends, and with it the goroutine
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
	}
	return lock, nil
}

// keepSysctls reads them and returns a function that writes those back that are no longer the same.
func keepSysctls() (restore func() error, err error) {
	before := make(map[string]string)
	for _, name := range kubeletSysctls {
		value, err := readSysctl(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without keys; the kubelet says so by itself
		}
		if err != nil {
			return nil, err
		}
		before[name] = value
	}
	return func() error {
		var errs []error
		for name, value := range before {
			now, err := readSysctl(name)
			if err == nil && now != value {
				err = os.WriteFile(sysctlPath(name), []byte(value), 0o644)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("restore sysctl %s=%s: %w", strings.ReplaceAll(name, "/", "."), value, err))
			}
		}
		return errors.Join(errs...)
	}, nil
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

func readSysctl(name string) (string, error) {
	value, err := os.ReadFile(sysctlPath(name))
	return strings.TrimSpace(string(value)), err
}
