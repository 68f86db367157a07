package docker

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// limitTitles has the limits' names, sorted, with their titles in /proc/PID/limits. It is read-only.
var limitTitles = []struct{ name, title string }{
	{"as", "Max address space"},
	{"core", "Max core file size"},
	{"cpu", "Max cpu time"},
	{"data", "Max data size"},
	{"fsize", "Max file size"},
	{"locks", "Max file locks"},
	{"memlock", "Max locked memory"},
	{"msgqueue", "Max msgqueue size"},
	{"nice", "Max nice priority"},
	{"nofile", "Max open files"},
	{"nproc", "Max processes"},
	{"rss", "Max resident set"},
	{"rtprio", "Max realtime priority"},
	{"rttime", "Max realtime timeout"},
	{"sigpending", "Max pending signals"},
	{"stack", "Max stack size"},
}

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

// parseLimits reads the text of /proc/PID/limits. Each line has a title, the soft limit and the hard limit.
func parseLimits(text string) []Limit {
	var out []Limit
	for _, known := range limitTitles {
		for line := range strings.Lines(text) {
			rest, found := strings.CutPrefix(line, known.title+" ")
			values := strings.Fields(rest)
			if !found || len(values) < 2 {
				continue
			}
			soft, softOK := parseLimit(values[0])
			hard, hardOK := parseLimit(values[1])
			if softOK && hardOK {
				out = append(out, Limit{Name: known.name, Soft: soft, Hard: hard})
			}
			break
		}
	}
	return out
}

// parseLimit reads one value. A value too large for the API's int64 is Unlimited.
func parseLimit(text string) (int64, bool) {
	if text == "unlimited" {
		return Unlimited, true
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, false
	}
	if value > math.MaxInt64 {
		return Unlimited, true
	}
	return int64(value), true
}
