package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The rules that a difference breaks.
const (
	NotRunning    = "reported as running, and does not run"
	NotReported   = "runs, and is not reported as running"
	PodGone       = "runs, and its pod is gone"
	PodOver       = "runs, and its pod is over"
	ReadyWithout  = "reported as ready with a container that does not run"
	NeverReported = "ran, and was never reported"
	NeverWas      = "reported, and never existed"
	OtherAttempt  = "the restart count is not the attempt"
	OtherExitCode = "the exit codes differ"
	StillRunning  = "has ended, and is reported as running"
	StartedTwice  = "was started twice"
	RestartsSank  = "the restart count went down"
	EndTakenBack  = "an end was taken back"
	WrongExitCode = "did not end with the expected exit code"
	Vanished      = "was not found by the kubelet"
	RanAgain      = "ran again although it had ended"
)

// The reasons that excuse a difference.
const (
	DeletedBefore  = "not reported before its pod was deleted"
	ReplacedBefore = "not reported before a later attempt was"
	DeletedEnd     = "its end was not reported, because its pod was deleted"
	DeletedMeant   = "another exit code or another run, because its pod was deleted or evicted"
	FaultMeant     = "another exit code or another run, because a fault was at work"
)

// Difference is a container that the engine and the API server describe differently.
type Difference struct {
	// Rule is one of the rules above.
	Rule           string
	Pod, Container string
	// Engine and API are the two descriptions.
	Engine, API string
}

func (d Difference) String() string {
	name := d.Pod
	if d.Container != "" {
		name += "/" + d.Container
	}
	return fmt.Sprintf("%s: %s; engine: %s; API server: %s", name, d.Rule, cmp.Or(d.Engine, "nothing"),
		cmp.Or(d.API, "nothing"))
}

// String describes the container as the engine sees it.
func (c Container) String() string {
	text := fmt.Sprintf("%s attempt %d", short(c.ID), c.Attempt)
	switch {
	case c.Started.IsZero():
		text += " was not started"
	case c.Running:
		text += " runs since " + c.Started.Format(time.TimeOnly)
	case c.Ended.IsZero():
		text += ", started " + c.Started.Format(time.TimeOnly) + ", was removed"
	default:
		text += fmt.Sprintf(", started %s, ended with %d at %s", c.Started.Format(time.TimeOnly), c.ExitCode,
			c.Ended.Format(time.TimeOnly))
	}
	return text
}

// Window is the time of a fault and of its effects.
type Window struct{ From, To time.Time }

// reportLag bounds the time that a kubelet needs to report a change to the API server.
const reportLag = 15 * time.Second

// disturbed says whether a fault or its effects overlap the time between from and to.
func disturbed(faults []Window, from, to time.Time) bool {
	return slices.ContainsFunc(faults, func(w Window) bool { return !from.After(w.To) && !to.Before(w.From) })
}

// Sorted orders differences by rule, pod and container.
func Sorted(all []Difference) []Difference {
	return slices.SortedFunc(slices.Values(all), func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Pod, b.Pod),
			strings.Compare(a.Container, b.Container))
	})
}
