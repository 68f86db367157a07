package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/test/rig/numbered"
	"github.com/criadapter/criadapter/test/soak/history"
)

// logs compares the lines that containers wrote with the lines in their CRI logs.
type logs struct {
	// kubelet is the kubelet's directory, and pods the directory of container logs.
	kubelet, pods string
	// seen has the result of the last look at each log, by the container's id.
	seen map[string]logSeen
}

// logSeen is the result of a look at a log. lost counts lines that only the engine can have lost. ended says that this
// was the last look, because the log no longer grows.
type logSeen struct {
	at                 time.Time
	lines, lost, marks int
	ended              bool
}

func newLogs(kubelet, pods string) *logs {
	return &logs{kubelet: kubelet, pods: pods, seen: make(map[string]logSeen)}
}

// written is a container's log, and the least number of lines that the container wrote.
type written struct {
	pod      history.Pod
	reported history.Reported
	id       string
	attempt  int
	lines    int
	// ended says that a later attempt is reported, so the log no longer grows.
	ended bool
}

// compare looks at the logs of all running writers, of the containers before them, and of all ended writing Jobs.
// engineEnded says whether the engine has ended since a given time. An engine that ends loses the log lines in its
// memory.
func (l *logs) compare(
	pods []history.Pod, containers []history.Container, engineEnded func(since time.Time) bool,
) (differences []history.Difference) {
	for _, p := range pods {
		for _, log := range l.of(p, containers) {
			if d, differs := l.compareOne(log, engineEnded); differs {
				differences = append(differences, d)
			}
		}
	}
	return differences
}

// of returns the logs of a pod that are compared.
func (l *logs) of(p history.Pod, containers []history.Container) (all []written) {
	reported, known := p.Current["main"]
	if !known || !p.Deleting.IsZero() || p.Evicted() {
		return nil
	}
	log := written{pod: p, reported: reported, id: reported.ID, attempt: reported.Restarts}
	switch {
	case strings.HasPrefix(p.Name, writers+"-") && reported.Running:
		log.lines = l.counted(p.UID, writtenFile)
		all = append(all, log)
		if id, started := startedBefore(containers, p.UID, reported); started {
			seen := l.seen[id]
			all = append(all, written{pod: p, reported: reported, id: id, attempt: reported.Restarts - 1,
				lines: max(l.counted(p.UID, previousFile), seen.lines+seen.lost), ended: true})
		}
	case strings.HasPrefix(p.Name, writingJob+"-") && p.Phase == v1.PodSucceeded:
		log.lines = jobLines
		all = append(all, log)
	}
	return all
}

// startedBefore returns the id of the attempt before a reported container, if that attempt was started. A kubelet does
// not keep the logs of still earlier attempts.
func startedBefore(containers []history.Container, uid string, reported history.Reported) (id string, started bool) {
	for _, c := range containers {
		if c.PodUID == uid && c.Name == reported.Name && c.Attempt == reported.Restarts-1 && !c.Started.IsZero() {
			return c.ID, true
		}
	}
	return "", false
}

// counted is the number of lines that a writer has recorded in a file, 0 if it has recorded none yet.
func (l *logs) counted(uid, file string) int {
	text, err := os.ReadFile(filepath.Join(l.kubelet, "pods", uid, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// compareOne compares one container's log.
func (l *logs) compareOne(log written, engineEnded func(since time.Time) bool) (history.Difference, bool) {
	now := time.Now() // before the files are read, so that an engine that ends meanwhile also counts next time
	before, known := l.seen[log.id]
	if !known {
		before.at = log.pod.Created
	}
	if before.ended {
		return history.Difference{}, false
	}
	tally, err := l.tally(log)
	if err == nil && (tally.Repeated > 0 || tally.Disordered > 0 ||
		!engineEnded(before.at) && (tally.Lost > before.lost || len(tally.Marks) > before.marks)) {
		err = fmt.Errorf("%v; the numbers jump from %v", tally, tally.Gaps)
	}
	if err != nil {
		return history.Difference{
			Rule: "the log is not what the container wrote", Pod: log.pod.Name, Container: log.reported.Name,
			API: log.reported.String(), Engine: fmt.Sprintf("attempt %d: %v", log.attempt, err)}, true
	}
	l.seen[log.id] = logSeen{
		at: now, lines: tally.Read, lost: tally.Lost, marks: len(tally.Marks), ended: log.ended}
	return history.Difference{}, false
}

// tally counts the lines of a log.
func (l *logs) tally(log written) (numbered.Tally, error) {
	if log.lines == 0 && !log.ended {
		return numbered.Tally{}, errors.New("no lines are recorded")
	}
	files, err := numbered.Rotated(filepath.Join(l.pods, namespace+"_"+log.pod.Name+"_"+log.pod.UID, log.reported.Name,
		strconv.Itoa(log.attempt)+".log"))
	if err != nil {
		return numbered.Tally{}, err
	}
	tally, err := numbered.Count(log.lines, files...)
	if log.ended && log.lines == 0 && errors.Is(err, fs.ErrNotExist) {
		return tally, nil // it ended before its first line
	}
	return tally, err
}

// sums counts the compared lines, and the lines that the engine lost.
func (l *logs) sums() (lines, lost int) {
	for _, seen := range l.seen {
		lines, lost = lines+seen.lines, lost+seen.lost
	}
	return lines, lost
}
