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
	NotRunning    = "told as running, and does not run"
	NotTold       = "runs, and is not told as running"
	PodGone       = "runs, and its pod is gone"
	PodOver       = "runs, and its pod is over"
	ReadyWithout  = "told as ready with a container that does not run"
	NeverTold     = "ran, and the API server was never told"
	NeverWas      = "told of, and never was"
	OtherAttempt  = "the restart count is not the attempt"
	OtherExitCode = "the exit codes differ"
	StillTold     = "has ended, and the API server was not told"
	StartedTwice  = "was started twice"
	RestartsSank  = "the restart count went down"
	EndTakenBack  = "an end was taken back"
	WrongExitCode = "did not end with its exit code"
	Vanished      = "was not to be found by the kubelet"
	RanAgain      = "ran again although it had ended"
)

// The reasons for which something is excused.
const (
	DeletedBefore  = "not told of, its pod was deleted before it could be"
	ReplacedBefore = "not told of, a later attempt was before it could be"
	DeletedEnd     = "its end not told, its pod was deleted"
	DeletedMeant   = "another exit code or another run, its pod was deleted or evicted"
	FaultMeant     = "another exit code or another run, a fault was at work"
)

// Difference is what both sides say of one container.
type Difference struct {
	// Rule is one of those above.
	Rule           string
	Pod, Container string
	// Engine and API are what each side says.
	Engine, API string
}

func (d Difference) String() string {
	name := d.Pod
	if d.Container != "" {
		name += "/" + d.Container
	}
	return fmt.Sprintf("%s: %s; engine: %s; API server: %s", name, d.Rule, cmp.Or(d.Engine, "nothing"), cmp.Or(d.API, "nothing"))
}

// String is what the engine says.
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
		text += fmt.Sprintf(", started %s, ended with %d at %s", c.Started.Format(time.TimeOnly), c.ExitCode, c.Ended.Format(time.TimeOnly))
	}
	return text
}

// Window is the time of a fault with its consequences.
type Window struct{ From, To time.Time }

// reportLag is how long after something a kubelet may need to tell the API server of it.
const reportLag = 15 * time.Second

// disturbed says whether a fault was at work at any moment between two.
func disturbed(faults []Window, from, to time.Time) bool {
	return slices.ContainsFunc(faults, func(w Window) bool { return !from.After(w.To) && !to.Before(w.From) })
}

// Sorted orders differences for people.
func Sorted(all []Difference) []Difference {
	return slices.SortedFunc(slices.Values(all), func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Pod, b.Pod), strings.Compare(a.Container, b.Container))
	})
}
