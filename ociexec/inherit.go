package ociexec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sameInheritance fails with ErrUnsuitable if a command would inherit other properties from this program than from the
// shim. One reason is a systemd unit that filters system calls or bounds capabilities. sameInheritance does not compare
// namespaces, because shimdir finds only shims in this program's namespaces.
func sameInheritance(proc string, shim int, process object) error {
	self, engine := filepath.Join(proc, "self"), filepath.Join(proc, strconv.Itoa(shim))
	if err := sameStatus(self, engine); err != nil {
		return err
	}
	if err := sameFiles(self, engine); err != nil {
		return err
	}
	if process["oomScoreAdj"] == nil {
		return unsuitable("the container's configuration has no oomScoreAdj")
	}
	if !process.has("apparmorProfile") && !process.has("selinuxLabel") && label(self) != label(engine) {
		return unsuitable("the shim's security label is %q, and this program's %q", label(engine), label(self))
	}
	return nil
}

// sameStatus compares fields of /proc/PID/status and /proc/PID/stat.
func sameStatus(self, engine string) error {
	own, err := statusOf(self)
	if err != nil {
		return unsuitable("%w", err)
	}
	other, err := statusOf(engine)
	if err != nil {
		return unsuitable("the engine's shim: %w", err)
	}
	if own["Seccomp"] != other["Seccomp"] {
		return differs("Seccomp", other["Seccomp"], own["Seccomp"])
	}
	if own["Seccomp"] != "0" {
		return unsuitable("Seccomp: the engine's shim and this program have filters, which cannot be compared")
	}
	for _, field := range []string{"NoNewPrivs", "Cpus_allowed", "nice", "policy"} {
		if own[field] != other[field] {
			return differs(field, other[field], own[field])
		}
	}
	for _, set := range []string{"CapBnd", "CapPrm", "CapEff"} {
		mine, err := strconv.ParseUint(own[set], 16, 64)
		if err != nil {
			return unsuitable("%s: %w", set, err)
		}
		theirs, err := strconv.ParseUint(other[set], 16, 64)
		if err != nil || theirs&^mine != 0 {
			return differs(set, other[set], own[set])
		}
	}
	return nil
}

// inheritedFiles are files of proc(5), besides status, stat and attr/current, with properties that a command inherits.
var inheritedFiles = []string{"personality", "timerslack_ns", "coredump_filter", "loginuid"}

// sameFiles compares the inheritedFiles of two processes. Some kernels lack some of them.
func sameFiles(self, engine string) error {
	for _, name := range inheritedFiles {
		own, ownErr := os.ReadFile(filepath.Join(self, name))
		other, otherErr := os.ReadFile(filepath.Join(engine, name))
		if os.IsNotExist(ownErr) && os.IsNotExist(otherErr) {
			continue
		}
		if err := errors.Join(ownErr, otherErr); err != nil {
			return unsuitable("%w", err)
		}
		if !bytes.Equal(own, other) {
			return differs(name, string(bytes.TrimSpace(other)), string(bytes.TrimSpace(own)))
		}
	}
	return nil
}

// ioPriority returns the I/O class and priority of a process. pid 0 means this program.
func ioPriority(pid int) (string, error) {
	const whoProcess = 1
	priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, whoProcess, uintptr(pid), 0)
	if errno != 0 {
		return "", os.NewSyscallError("ioprio_get", errno)
	}
	return strconv.Itoa(int(priority)), nil
}

// sameIOPriority compares the I/O priorities of this program and the shim.
func sameIOPriority(shim int) error {
	own, err := ioPriority(0)
	if err != nil {
		return unsuitable("%w", err)
	}
	other, err := ioPriority(shim)
	if err != nil {
		return unsuitable("the engine's shim: %w", err)
	}
	if own != other {
		return differs("ioprio", other, own)
	}
	return nil
}

func differs(field, engine, own string) error {
	return unsuitable("%s is %s for the engine's shim, and %s for this program", field, engine, own)
}

// statusOf returns the fields of a process's status, and some fields of its stat.
func statusOf(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil, err
	}
	// The third field of stat (proc(5)) follows the name, which is in parentheses. Package proctable parses other
	// fields as numbers. These fields are compared as text.
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(rest) < 49 {
		return nil, fmt.Errorf("%s/stat has %d fields", dir, len(rest))
	}
	fields["nice"], fields["start"], fields["policy"], fields["envEnd"] = rest[16], rest[19], rest[38], rest[48]
	return fields, nil
}

// inheritedUmask returns the shim's umask. Only some versions of runc set a umask of their own for a command.
func inheritedUmask(proc string, shim int) (int, error) {
	status, err := statusOf(filepath.Join(proc, strconv.Itoa(shim)))
	if err != nil {
		return 0, unsuitable("the engine's shim: %w", err)
	}
	umask, err := strconv.ParseUint(status["Umask"], 8, 9)
	if err != nil {
		return 0, unsuitable("the shim's umask: %w", err)
	}
	return int(umask), nil
}

// label is a process's AppArmor or SELinux label, empty where there is none.
func label(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "attr/current"))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\x00\n")
}
