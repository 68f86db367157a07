package ociexec

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fakeProcess writes the files of a process that sameInheritance reads.
func fakeProcess(t *testing.T, proc, name string, change map[string]string) {
	t.Helper()
	fields := map[string]string{
		"Seccomp": "0", "NoNewPrivs": "0", "Cpus_allowed": "3", "nice": "0", "policy": "0",
		"CapBnd": "000001ffffffffff", "CapPrm": "000001ffffffffff", "CapEff": "000001ffffffffff", "label": "unconfined",
		"personality": "00000000", "timerslack_ns": "50000", "coredump_filter": "00000033", "loginuid": "4294967295",
	}
	maps.Copy(fields, change)
	dir := filepath.Join(proc, name)
	testutil.Must(t, os.MkdirAll(dir, 0o700))
	var status strings.Builder
	for field, value := range fields {
		fmt.Fprintf(&status, "%s:\t%s\n", field, value)
	}
	rest := strings.Fields(strings.Repeat("0 ", 50))
	rest[16], rest[38] = fields["nice"], fields["policy"]
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "status"), []byte(status.String()), 0o600))
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte("1 (a) b) "+strings.Join(rest, " ")), 0o600))
	for _, name := range inheritedFiles {
		if value, found := fields[name]; found {
			testutil.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600))
		}
	}
	testutil.WriteFile(t, filepath.Join(dir, "attr/current"), fields["label"]+"\n")
}

// A command that would inherit other properties from this program than from the shim goes through the engine.
func TestSameInheritance(t *testing.T) {
	plain := object{"oomScoreAdj": 0}
	tests := []struct {
		name    string
		own     map[string]string
		process object
		fault   string
	}{
		{"the same", nil, plain, ""},
		{"a filter", map[string]string{"Seccomp": "2"}, plain, "Seccomp is 0"},
		{"a personality", map[string]string{"personality": "00040000"}, plain, "personality"},
		{"a timer slack", map[string]string{"timerslack_ns": "1"}, plain, "timerslack_ns"},
		{"a core dump filter", map[string]string{"coredump_filter": "1"}, plain, "coredump_filter"},
		{"a login", map[string]string{"loginuid": "1000"}, plain, "loginuid"},
		{"no new privileges", map[string]string{"NoNewPrivs": "1"}, plain, "NoNewPrivs"},
		{"a bounding set", map[string]string{"CapBnd": "000001fffdffffff"}, plain, "CapBnd"},
		{"more capabilities", map[string]string{"CapEff": "000003ffffffffff"}, plain, ""},
		{"a nice value", map[string]string{"nice": "5"}, plain, "nice"},
		{"a policy", map[string]string{"policy": "3"}, plain, "policy"},
		{"fewer CPUs", map[string]string{"Cpus_allowed": "1"}, plain, "Cpus_allowed"},
		{"a label", map[string]string{"label": "mine"}, plain, "label"},
		{"a replaced label", map[string]string{"label": "mine"}, object{"oomScoreAdj": 0, "apparmorProfile": "p"}, ""},
		{"no profile", map[string]string{"label": "mine"}, object{"oomScoreAdj": 0, "apparmorProfile": ""}, "label"},
		{"no score", nil, object{}, "oomScoreAdj"},
	}
	for _, tt := range tests {
		proc := t.TempDir()
		fakeProcess(t, proc, "self", tt.own)
		fakeProcess(t, proc, "7", nil)
		err := sameInheritance(proc, 7, tt.process)
		if tt.fault == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.fault != "" && (!errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Two seccomp filters may differ, so a filter in both processes is unsuitable.
func TestTwoFiltersDoNotCountAsEqual(t *testing.T) {
	proc := t.TempDir()
	filtered := map[string]string{"Seccomp": "2", "Seccomp_filters": "1"}
	fakeProcess(t, proc, "self", filtered)
	fakeProcess(t, proc, "7", filtered)
	err := sameInheritance(proc, 7, object{"oomScoreAdj": 0})
	testutil.Assert(t, errors.Is(err, ErrUnsuitable) && strings.Contains(err.Error(), "Seccomp"), "%v", err)
}

// A shim with another I/O priority than this program is unsuitable.
func TestSameIOPriority(t *testing.T) {
	shim := exec.Command("sleep", "1000")
	testutil.Must(t, shim.Start())
	t.Cleanup(func() { _, _ = shim.Process.Kill(), shim.Wait() })
	testutil.Must(t, sameIOPriority(shim.Process.Pid))
	const whoProcess, lowest = 1, 2<<13 | 7
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(shim.Process.Pid), lowest)
	testutil.Require(t, errno == 0, "ioprio_set: %v", errno)
	err := sameIOPriority(shim.Process.Pid)
	testutil.Assert(t, errors.Is(err, ErrUnsuitable) && strings.Contains(err.Error(), "ioprio"), "%v", err)
}

// A container's process that has raised its own limit of open files does not raise the limit of commands.
func TestOpenFilesAreBoundedByTheShim(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{"self": "9 9", "7": "1024 4096", "8": "2048 999999"} {
		testutil.WriteFile(t, filepath.Join(proc, name, "limits"), "Max open files "+text+" files\n")
	}
	limits, err := inheritedLimits(proc, 7, 8)
	testutil.Must(t, err)
	want := []limit{{Type: openFiles, Hard: 4096, Soft: 2048}}
	testutil.Assert(t, slices.Equal(limits, want), "%v, want %v", limits, want)
}
