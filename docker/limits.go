package docker

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/internal/proctable"
)

// Limit is a resource limit of a process, setrlimit(2).
type Limit struct {
	// Name is the limit's name in the Docker API: "nofile" for RLIMIT_NOFILE.
	Name string
	// Soft and Hard are in the limit's own unit, Unlimited for no limit.
	Soft, Hard int64
}

// Unlimited means no limit.
const Unlimited = -1

// readLimits returns the limits of a process. dir is its directory in /proc. It leaves out limits that it cannot read.
func readLimits(dir string) []Limit {
	text, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return nil
	}
	return parseLimits(string(text))
}

// readMaxOpenFiles returns fs.nr_open, 0 if it cannot be read. proc is /proc.
func readMaxOpenFiles(proc string) int64 {
	text, _ := os.ReadFile(filepath.Join(proc, "sys/fs/nr_open"))
	value, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return value
}

// parseLimits reads the text of /proc/PID/limits.
func parseLimits(text string) []Limit {
	var out []Limit
	limits, _ := proctable.ParseLimits(text) // the error names an unreadable line
	for _, limit := range limits {
		out = append(out, Limit{Name: limit.Name, Soft: signed(limit.Soft), Hard: signed(limit.Hard)})
	}
	return out
}

// signed converts one value. A value too large for the API's int64 is Unlimited.
func signed(value uint64) int64 {
	if value > math.MaxInt64 {
		return Unlimited
	}
	return int64(value)
}
