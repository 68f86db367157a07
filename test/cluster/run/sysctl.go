package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// kubeletSysctls are what a kubelet sets at its start, for the whole machine: no namespace has values of its own.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
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
