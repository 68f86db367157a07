package ociexec

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/internal/proctable"
)

// limit is a resource limit in the form of the OCI specification.
type limit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

// openFiles is the limit that a Go program raises for itself.
const openFiles = "RLIMIT_NOFILE"

// inheritedLimits returns the shim's limits that differ from this program's, and the limit of open files. A Go program
// raises its own soft limit of open files, and starts other programs with the old limit. So the limit of open files is
// read from the container's first process. That process may have raised its limit, so the shim's hard limit bounds it.
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
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		if wanted := passed[name]; wanted != own[name] || name == openFiles {
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
	list, err := proctable.ParseLimits(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	limits := map[string]limit{}
	for _, l := range list {
		name := "RLIMIT_" + strings.ToUpper(l.Name)
		limits[name] = limit{Type: name, Hard: l.Hard, Soft: l.Soft}
	}
	return limits, nil
}
