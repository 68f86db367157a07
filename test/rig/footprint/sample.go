package footprint

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/test/rig/adapter"
)

// The names of figures.
const (
	ResidentMemory = "resident memory, MB"
	Goroutines     = "goroutines"
	Descriptors    = "descriptors"
	Threads        = "threads"
	Mounts         = "mounts"
	StateOnDisk    = "state on disk, kB"
)

// Figures are measured values by their names.
type Figures map[string]float64

// Sample measures a server. Mounts counts all mounts of the mount namespace.
func Sample(ctx context.Context, server *adapter.Server, metrics *Metrics) (Figures, error) {
	process := filepath.Join("/proc", strconv.Itoa(server.PID()))
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil {
		return nil, err
	}
	descriptors, err := os.ReadDir(filepath.Join(process, "fd"))
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	goroutines, err := metrics.Value(ctx, "go_goroutines")
	if err != nil {
		return nil, fmt.Errorf("goroutines: %w", err)
	}
	return Figures{
		ResidentMemory: statusField(string(status), "VmRSS:") / 1024,
		Goroutines:     goroutines,
		Descriptors:    float64(len(descriptors)),
		Threads:        statusField(string(status), "Threads:"),
		Mounts:         float64(strings.Count(string(mounts), "\n")),
		StateOnDisk:    float64(sizeOf(server.RootDir)) / 1024,
	}, nil
}

// statusField returns a number from the text of /proc/PID/status, or 0 if the field is missing.
func statusField(status, name string) float64 {
	_, rest, _ := strings.Cut(status, name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	value, _ := strconv.ParseFloat(fields[0], 64)
	return value
}

// sizeOf adds up the sizes of files. It leaves out files that vanish meanwhile.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
