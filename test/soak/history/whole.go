package history

import (
	"fmt"
	"slices"
	"time"
)

// Verdict is the result of a comparison.
type Verdict struct {
	// Compared is the number of compared containers.
	Compared    int
	Differences []Difference
	// Excused counts excused differences by reason.
	Excused map[string]int
}

// sides has the two histories at one moment.
type sides struct {
	containers []Container
	pods       map[string]Pod
	reported   map[string]Reported
	faults     []Window
	verdict    Verdict
}

// Whole compares the whole histories. faults are the times of faults, which excuse some differences.
func Whole(engine *Engine, api *API, faults []Window) Verdict {
	s := &sides{containers: engine.Containers(), faults: faults, verdict: Verdict{Excused: make(map[string]int)}}
	var odd []Difference
	s.pods, s.reported, odd = api.view()
	s.verdict.Differences = odd
	engines := make(map[string]bool)
	for _, c := range s.containers {
		engines[c.ID] = true
		if !c.Sandbox && !c.Started.IsZero() {
			s.verdict.Compared++
			s.compare(c)
		}
	}
	for id, reported := range s.reported {
		if !engines[id] {
			s.differ(NeverWas, Container{Pod: s.pods[reported.PodUID].Name, Name: reported.Name}, reported)
		}
	}
	s.wholePods()
	s.verdict.Differences = Sorted(s.verdict.Differences)
	return s.verdict
}

func (s *sides) differ(rule string, c Container, reported Reported) {
	d := Difference{Rule: rule, Pod: c.Pod, Container: c.Name}
	if c.ID != "" {
		d.Engine = c.String()
	}
	if reported.ID != "" {
		d.API = fmt.Sprintf("%s, restart count %d", reported, reported.Restarts)
	}
	s.verdict.Differences = append(s.verdict.Differences, d)
}

// compare compares the two histories of a container that ran.
func (s *sides) compare(c Container) {
	if c.Starts() > 1 {
		s.differ(StartedTwice, c, s.reported[c.ID])
	}
	s.expectedEnd(c)
	reported, known := s.reported[c.ID]
	switch {
	case !known:
		if reason := s.unreported(c); reason != "" {
			s.verdict.Excused[reason]++
		} else {
			s.differ(NeverReported, c, reported)
		}
		return
	case reported.Restarts >= 0 && reported.Restarts != c.Attempt:
		s.differ(OtherAttempt, c, reported)
	}
	switch {
	case reported.Ended && (c.Running || c.Ended.IsZero()):
		s.differ(EndTakenBack, c, reported)
	case reported.Ended && reported.ExitCode != c.ExitCode:
		s.differ(OtherExitCode, c, reported)
	case !reported.Ended && !c.Running && s.endedByDeletion(c):
		s.verdict.Excused[DeletedEnd]++
	case !reported.Ended && !c.Running:
		s.differ(StillRunning, c, reported)
	}
}

// endedByDeletion says whether a container ended after its pod's deletion, or so late that the kubelet may have had no
// time to report the end. If the engine lost the end, the container has no end time.
func (s *sides) endedByDeletion(c Container) bool {
	deleting := s.pods[c.PodUID].Deleting
	return !deleting.IsZero() &&
		(c.Ended.IsZero() || c.Ended.After(deleting) || s.soonOrDisturbed(c.Ended, deleting))
}

// unreported returns the reason that excuses a container without a status, empty for none.
func (s *sides) unreported(c Container) string {
	if p := s.pods[c.PodUID]; !p.Deleting.IsZero() && s.soonOrDisturbed(c.Started, p.Deleting) {
		return DeletedBefore
	}
	for _, later := range s.containers {
		_, reported := s.reported[later.ID]
		if reported && later.PodUID == c.PodUID && later.Name == c.Name && later.Attempt > c.Attempt &&
			s.soonOrDisturbed(c.Started, later.Created) {
			return ReplacedBefore
		}
	}
	return ""
}

// soonOrDisturbed says whether the kubelet may have had no time to report a change: the other change came too soon
// before or after it, or a fault was between them.
func (s *sides) soonOrDisturbed(change, other time.Time) bool {
	if other.Before(change) {
		change, other = other, change
	}
	return other.Sub(change) < reportLag || disturbed(s.faults, change, other)
}

// expectedEnd compares an end with the pod's expected exit code.
func (s *sides) expectedEnd(c Container) {
	p, known := s.pods[c.PodUID]
	if !known || p.ExitCode < 0 || c.Ended.IsZero() || c.ExitCode == p.ExitCode {
		return
	}
	if reason := s.meant(p, c.Started, c.Ended); reason != "" {
		s.verdict.Excused[reason]++
		return
	}
	s.differ(WrongExitCode, c, s.reported[c.ID])
}

// meant returns the reason that excuses the end of a pod's container between two moments, empty for none.
func (s *sides) meant(p Pod, from, to time.Time) string {
	switch {
	case !p.Deleting.IsZero() && p.Deleting.Before(to.Add(reportLag)), p.Evicted():
		return DeletedMeant
	case disturbed(s.faults, from, to):
		return FaultMeant
	default:
		return ""
	}
}

// wholePods compares whole pods: containers that the kubelet lost, and containers that ran again.
func (s *sides) wholePods() {
	runs := make(map[string][]Container)
	for _, c := range s.containers {
		p, known := s.pods[c.PodUID]
		if c.Sandbox || c.Started.IsZero() || !known || p.ExitCode < 0 {
			continue
		}
		owner := p.UID
		if p.Owner != "" {
			owner = p.Owner
		}
		runs[owner+"/"+c.Name] = append(runs[owner+"/"+c.Name], c)
	}
	for _, of := range runs {
		s.compareOnce(of)
	}
	for _, p := range s.pods {
		for _, name := range p.Vanished {
			if !p.Evicted() {
				s.differ(Vanished, Container{Pod: p.Name, Name: name}, p.Current[name])
			}
		}
	}
}

// compareOnce compares the runs of a container that must end once. All runs but the last must have been cut short, or
// their end was not reported.
func (s *sides) compareOnce(runs []Container) {
	slices.SortFunc(runs, func(a, b Container) int { return a.Started.Compare(b.Started) })
	for i, c := range runs[:len(runs)-1] {
		if reason := s.repeated(c, runs[i+1].Started); reason != "" {
			s.verdict.Excused[reason]++
		} else {
			s.differ(RanAgain, runs[i+1], s.reported[runs[i+1].ID])
		}
	}
}

// repeated returns the reason that excuses the next run after a container, empty for none. A deletion or a fault
// excuses the next run only up to reportLag after the container's end.
func (s *sides) repeated(c Container, next time.Time) string {
	end := c.Ended
	if end.IsZero() {
		end = next
	}
	reason := s.meant(s.pods[c.PodUID], c.Started, end)
	if reason == "" && disturbed(s.faults, end, end.Add(reportLag)) {
		reason = FaultMeant
	}
	return reason
}
