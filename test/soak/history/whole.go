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
	told       map[string]Reported
	faults     []Window
	verdict    Verdict
}

// Whole returns what differs in the whole histories, given the times of faults.
func Whole(engine *Engine, api *API, faults []Window) Verdict {
	s := &sides{containers: engine.Containers(), faults: faults, verdict: Verdict{Excused: make(map[string]int)}}
	var odd []Difference
	s.pods, s.told, odd = api.view()
	s.verdict.Differences = odd
	engines := make(map[string]bool)
	for _, c := range s.containers {
		engines[c.ID] = true
		if !c.Sandbox && !c.Started.IsZero() {
			s.verdict.Compared++
			s.compare(c)
		}
	}
	for id, told := range s.told {
		if !engines[id] {
			s.differ(NeverWas, Container{Pod: s.pods[told.PodUID].Name, Name: told.Name}, told)
		}
	}
	s.wholePods()
	s.verdict.Differences = Sorted(s.verdict.Differences)
	return s.verdict
}

func (s *sides) differ(rule string, c Container, told Reported) {
	d := Difference{Rule: rule, Pod: c.Pod, Container: c.Name}
	if c.ID != "" {
		d.Engine = c.String()
	}
	if told.ID != "" {
		d.API = fmt.Sprintf("%s, restart count %d", told, told.Restarts)
	}
	s.verdict.Differences = append(s.verdict.Differences, d)
}

// compare compares the two histories of a container that ran.
func (s *sides) compare(c Container) {
	if c.Starts > 1 {
		s.differ(StartedTwice, c, s.told[c.ID])
	}
	s.expectedEnd(c)
	told, known := s.told[c.ID]
	switch {
	case !known:
		if reason := s.unreported(c); reason != "" {
			s.verdict.Excused[reason]++
		} else {
			s.differ(NeverReported, c, told)
		}
		return
	case told.Restarts >= 0 && told.Restarts != c.Attempt:
		s.differ(OtherAttempt, c, told)
	}
	switch {
	case told.Ended && (c.Running || c.Ended.IsZero()):
		s.differ(EndTakenBack, c, told)
	case told.Ended && told.ExitCode != c.ExitCode:
		s.differ(OtherExitCode, c, told)
	case !told.Ended && !c.Running && s.pods[c.PodUID].Deleting.IsZero():
		s.differ(StillRunning, c, told)
	case !told.Ended && !c.Running:
		s.verdict.Excused[DeletedEnd]++
	}
}

// unreported returns the reason that excuses a container without a status, empty for none.
func (s *sides) unreported(c Container) string {
	if p := s.pods[c.PodUID]; !p.Deleting.IsZero() && s.soonOrDisturbed(c.Started, p.Deleting) {
		return DeletedBefore
	}
	for _, later := range s.containers {
		_, told := s.told[later.ID]
		if told && later.PodUID == c.PodUID && later.Name == c.Name && later.Attempt > c.Attempt &&
			s.soonOrDisturbed(c.Started, later.Started) {
			return ReplacedBefore
		}
	}
	return ""
}

// soonOrDisturbed says whether the kubelet may have had no time to report a start: then came too soon after start, or a
// fault was between them.
func (s *sides) soonOrDisturbed(start, then time.Time) bool {
	return then.Sub(start) < reportLag || disturbed(s.faults, start, then)
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
	s.differ(WrongExitCode, c, s.told[c.ID])
}

// meant returns the reason that excuses the end of a pod's container between two moments, empty for none.
func (s *sides) meant(p Pod, from, to time.Time) string {
	switch {
	case !p.Deleting.IsZero() && p.Deleting.Before(to.Add(reportLag)), p.Reason != "":
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
		s.once(of)
	}
	for _, p := range s.pods {
		for _, name := range p.Vanished {
			if p.Deleting.IsZero() && p.Reason == "" {
				s.differ(Vanished, Container{Pod: p.Name, Name: name}, p.Current[name])
			}
		}
	}
}

// once compares the runs of a container that must end once. All runs but the last must have been cut short.
func (s *sides) once(runs []Container) {
	slices.SortFunc(runs, func(a, b Container) int { return a.Started.Compare(b.Started) })
	for i, c := range runs[:len(runs)-1] {
		if reason := s.meant(s.pods[c.PodUID], c.Started, runs[i+1].Started); reason != "" {
			s.verdict.Excused[reason]++
		} else {
			s.differ(RanAgain, runs[i+1], s.told[runs[i+1].ID])
		}
	}
}
