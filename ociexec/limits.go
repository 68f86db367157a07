package ociexec

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// limit is a resource limit in the form of the OCI specification.
type limit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

// openFiles is the limit that a Go program raises for itself.
const openFiles = "RLIMIT_NOFILE"

// resources are the specification's names of the lines of /proc/PID/limits.
var resources = []struct{ line, name string }{
	{"Max address space", "RLIMIT_AS"},
	{"Max core file size", "RLIMIT_CORE"},
	{"Max cpu time", "RLIMIT_CPU"},
	{"Max data size", "RLIMIT_DATA"},
	{"Max file size", "RLIMIT_FSIZE"},
	{"Max file locks", "RLIMIT_LOCKS"},
	{"Max locked memory", "RLIMIT_MEMLOCK"},
	{"Max msgqueue size", "RLIMIT_MSGQUEUE"},
	{"Max nice priority", "RLIMIT_NICE"},
	{"Max open files", openFiles},
	{"Max processes", "RLIMIT_NPROC"},
	{"Max resident set", "RLIMIT_RSS"},
	{"Max realtime priority", "RLIMIT_RTPRIO"},
	{"Max realtime timeout", "RLIMIT_RTTIME"},
	{"Max pending signals", "RLIMIT_SIGPENDING"},
	{"Max stack size", "RLIMIT_STACK"},
}

// inheritedLimits returns the limits that the shim passes on and that this program does not have. A Go program raises
// its own soft limit of open files, and starts other programs with the old limit. So the limit of open files is read
// from the container's first process. That process may have raised its limit, so the shim's hard limit bounds it.
func inheritedLimits(proc string, shim, first int) ([]limit, error) {
	own, err := readLimits(filepath.Join(proc, "self"))
	if err != nil {
		return nil, unsuitable("%w", err)
	}
	passed, err := readLimits(filepath.Join(proc, strconv.Itoa(shim)))
	if err != nil {
		return nil, unsuitable("the shim's limits: %w", err)
	}
	container, err := readLimits(filepath.Join(proc, strconv.Itoa(first)))
	if err != nil {
		return nil, unsuitable("the limits of the container's process: %w", err)
	}
	hard := passed[openFiles].Hard
	files := container[openFiles]
	passed[openFiles] = limit{Type: openFiles, Hard: min(files.Hard, hard), Soft: min(files.Soft, hard)}
	var limits []limit
	for _, r := range resources {
		if wanted, found := passed[r.name]; found && (wanted != own[r.name] || r.name == openFiles) {
			limits = append(limits, wanted)
		}
	}
	return limits, nil
}

// readLimits returns a process's limits by their names in the specification.
func readLimits(dir string) (map[string]limit, error) {
	text, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return nil, err
	}
	limits := map[string]limit{}
	for line := range strings.Lines(string(text)) {
		for _, r := range resources {
			rest, found := strings.CutPrefix(line, r.line+" ")
			if !found {
				continue
			}
			fields := strings.Fields(rest)
			if len(fields) < 2 {
				return nil, fmt.Errorf("%s: %q", dir, line)
			}
			soft, softErr := limitValue(fields[0])
			hard, hardErr := limitValue(fields[1])
			if softErr != nil || hardErr != nil {
				return nil, fmt.Errorf("%s: %q", dir, line)
			}
			limits[r.name] = limit{Type: r.name, Hard: hard, Soft: soft}
		}
	}
	return limits, nil
}

// limitValue reads a limit. "unlimited" is the largest number, RLIM_INFINITY of setrlimit(2).
func limitValue(text string) (uint64, error) {
	if text == "unlimited" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
