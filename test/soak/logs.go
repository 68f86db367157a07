package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/test/rig/numbered"
	"github.com/criadapter/criadapter/test/soak/history"
)

// logs compares what containers wrote with what is in their CRI logs.
type logs struct {
	// kubelet is the kubelet's directory, and pods the directory of container logs.
	kubelet, pods string
	// seen has the result of the last look at each log, by the container's id.
	seen map[string]logSeen
}

// logSeen is the result of a look at a log. lost counts lines that only the engine can have lost.
type logSeen struct {
	at                 time.Time
	lines, lost, marks int
}

func newLogs(kubelet, pods string) *logs {
	return &logs{kubelet: kubelet, pods: pods, seen: make(map[string]logSeen)}
}

// compare looks at the logs of all running writers and of all ended writing Jobs. engineEnded says whether the engine
// has ended since a given time. Log lines in the engine's memory are then lost.
func (l *logs) compare(pods []history.Pod, engineEnded func(since time.Time) bool) (differences []history.Difference) {
	for _, p := range pods {
		told, known := p.Current["main"]
		if !known || !p.Deleting.IsZero() || p.Reason != "" {
			continue
		}
		written := 0
		switch {
		case strings.HasPrefix(p.Name, writers+"-") && told.Running:
			written = l.written(p.UID)
		case strings.HasPrefix(p.Name, writingJob+"-") && p.Phase == v1.PodSucceeded:
			written = jobLines
		default:
			continue
		}
		if d, differs := l.one(p, told, written, engineEnded); differs {
			differences = append(differences, d)
		}
	}
	return differences
}

// written is the number of lines that a writer has recorded, 0 if the record cannot be read.
func (l *logs) written(uid string) int {
	text, err := os.ReadFile(filepath.Join(l.kubelet, "pods", uid, writtenFile))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// one compares one container's log.
func (l *logs) one(
	p history.Pod, told history.Reported, written int, engineEnded func(since time.Time) bool,
) (history.Difference, bool) {
	now := time.Now() // taken before the look, so that an engine that ends meanwhile counts next time, too
	d := history.Difference{
		Rule: "the log is not what the container wrote", Pod: p.Name, Container: told.Name, API: told.String()}
	files, err := numbered.Rotated(
		filepath.Join(l.pods, namespace+"_"+p.Name+"_"+p.UID, told.Name, strconv.Itoa(told.Restarts)+".log"))
	if err != nil {
		d.Engine = err.Error()
		return d, true
	}
	tally, err := numbered.Count(written, files...)
	if err != nil {
		d.Engine = err.Error()
		return d, true
	}
	before, known := l.seen[told.ID]
	if !known {
		before.at = p.Created
	}
	if tally.Repeated > 0 || !engineEnded(before.at) && (tally.Lost > before.lost || len(tally.Marks) > before.marks) {
		d.Engine = fmt.Sprintf("%v; the numbers jump from %v", tally, tally.Gaps)
		return d, true
	}
	l.seen[told.ID] = logSeen{at: now, lines: tally.Read, lost: tally.Lost, marks: len(tally.Marks)}
	return d, false
}

// sums counts the compared lines, and the lines that the engine lost.
func (l *logs) sums() (lines, lost int) {
	for _, seen := range l.seen {
		lines, lost = lines+seen.lines, lost+seen.lost
	}
	return lines, lost
}
