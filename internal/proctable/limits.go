package proctable

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limit is a resource limit of a process, setrlimit(2).
type Limit struct {
	// Name is the limit's name in the Docker API: "nofile" for RLIMIT_NOFILE.
	Name string
	// Soft and Hard are in the limit's own unit, math.MaxUint64 for no limit.
	Soft, Hard uint64
}

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

// ParseLimits reads the text of /proc/PID/limits. Each line has a title, the soft limit and the hard limit. It leaves
// out lines that it cannot read, and names one of them in the error.
func ParseLimits(text string) (limits []Limit, err error) {
	for _, known := range limitTitles {
		for line := range strings.Lines(text) {
			rest, found := strings.CutPrefix(line, known.title+" ")
			if !found {
				continue
			}
			values := append(strings.Fields(rest), "", "") // two at least
			soft, softErr := limitValue(values[0])
			hard, hardErr := limitValue(values[1])
			if softErr == nil && hardErr == nil {
				limits = append(limits, Limit{Name: known.name, Soft: soft, Hard: hard})
			} else {
				err = fmt.Errorf("%q", line)
			}
			break
		}
	}
	return limits, err
}

// limitValue reads one value. "unlimited" is the largest number, RLIM_INFINITY of setrlimit(2).
func limitValue(text string) (uint64, error) {
	if text == "unlimited" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
