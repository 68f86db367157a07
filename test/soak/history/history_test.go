package history

import (
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

// zero is when the histories of tests begin.
var zero = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func at(second int) time.Time { return zero.Add(time.Duration(second) * time.Second) }

// world is a made-up history of one pod. It has one container of each attempt, unless a test adds more.
type world struct {
	engine Engine
	api    API
	pod    *v1.Pod
	faults []Window
}

const (
	first  = "1111111111111111"
	second = "2222222222222222"
)

func newWorld() *world {
	return &world{
		pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1"}, Status: v1.PodStatus{Phase: v1.PodRunning}}}
}

// create makes a container of the pod in the engine and starts it.
func (w *world) create(id string, attempt, second int) {
	w.makeOnly(id, attempt, second)
	w.engine.Start(id, at(second))
}

// makeOnly makes a container of the pod in the engine, which does not start.
func (w *world) makeOnly(id string, attempt, second int) {
	name := "/k8s_main_" + w.pod.Name + "_soak_" + string(w.pod.UID) + "_" + string(rune('0'+attempt))
	labels := map[string]string{"io.kubernetes.pod.uid": string(w.pod.UID), "io.kubernetes.pod.name": w.pod.Name,
		"io.kubernetes.container.name": "main", "io.kubernetes.docker.type": "container"}
	w.engine.See(id, name, labels, at(second))
}

// status sets the pod's status of the container main.
func (w *world) status(restarts int, state v1.ContainerState, last *v1.ContainerStateTerminated, id string) {
	w.pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "main", RestartCount: int32(restarts), ContainerID: "docker://" + id, State: state,
		LastTerminationState: v1.ContainerState{Terminated: last},
	}}
}

func (w *world) tell(second int) { w.api.See(w.pod.DeepCopy(), false, at(second)) }

func (w *world) tellRunning(id string, restarts, second int) {
	w.status(restarts, v1.ContainerState{Running: &v1.ContainerStateRunning{}}, nil, id)
	w.tell(second)
}

// runs makes the first container, and reports it as running.
func (w *world) runs() {
	w.create(first, 0, 1)
	w.tellRunning(first, 0, 2)
}

// ran makes the first container, which ends, and reports its end.
func (w *world) ran(code int) {
	w.create(first, 0, 1)
	w.engine.End(first, at(3), code)
	w.tellEnded(first, 0, code, 4)
}

func (w *world) tellEnded(id string, restarts, code, second int) {
	w.status(restarts, v1.ContainerState{Terminated: terminated(id, code)}, nil, id)
	w.tell(second)
}

func terminated(id string, code int) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ContainerID: "docker://" + id, ExitCode: int32(code), Reason: "Error"}
}

func (w *world) ready() {
	w.pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
}

func (w *world) deleted(second int) {
	w.pod.DeletionTimestamp = &metav1.Time{Time: at(second)}
	w.tell(second)
}

func (w *world) ends(code string) {
	w.pod.Annotations = map[string]string{ExitCodeAnnotation: code}
	w.pod.Status.Phase = v1.PodSucceeded
}

// rules returns the rules that differences break.
func rules(all []Difference) (rules []string) {
	for _, d := range all {
		rules = append(rules, d.Rule)
	}
	slices.Sort(rules)
	return rules
}

func TestNow(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*world)
		want    []string
	}{
		"runs, and is reported": {func(w *world) {
			w.ready()
			w.runs()
		}, nil},
		"ended, and reported as running and ready": {func(w *world) {
			w.ready()
			w.runs()
			w.engine.End(first, at(3), 1)
		}, []string{NotRunning}},
		"lost by the engine, and reported as running": {func(w *world) {
			w.runs()
			w.engine.Existing(nil)
		}, []string{NotRunning}},
		"runs, and is not reported": {func(w *world) {
			w.create(first, 0, 1)
			w.tell(1)
		}, []string{NotReported}},
		"runs, and another container is reported": {func(w *world) {
			w.create(first, 0, 1)
			w.tellRunning(second, 0, 2)
		}, []string{NotReported, NotRunning}},
		"its pod is ready, and it has failed": {func(w *world) {
			w.ready()
			w.ran(1)
		}, []string{ReadyWithout}},
		"its pod is ready, and it is an ended init container": {func(w *world) {
			w.ready()
			w.ran(0)
		}, nil},
		"its pod was never there": {func(w *world) {
			w.create(first, 0, 1)
		}, []string{PodGone}},
		"its pod is gone": {func(w *world) {
			w.runs()
			w.api.See(w.pod, true, at(3))
		}, []string{PodGone}},
		"its pod went while the watch was down": {func(w *world) {
			w.runs()
			w.api.Existing(nil, at(3))
		}, []string{PodGone}},
		"its pod is over": {func(w *world) {
			w.create(first, 0, 1)
			w.pod.Status.Phase = v1.PodFailed
			w.tellRunning(first, 0, 2)
		}, []string{PodOver}},
		"belongs to no pod": {func(w *world) {
			w.engine.See(first, "/other", map[string]string{"io.kubernetes.pod.uid": "u9"}, at(1))
			w.engine.Start(first, at(1))
		}, nil},
	} {
		w := newWorld()
		test.happens(w)
		slices.Sort(test.want)
		got := rules(Now(&w.engine, &w.api))
		testutil.Assert(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

func TestHistoriesAreCompared(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*world)
		want    []string
		excused map[string]int
	}{
		"ran, ended, and was replaced": {func(w *world) {
			w.runs()
			w.engine.End(first, at(30), 3)
			w.create(second, 1, 31)
			w.status(1, v1.ContainerState{Running: &v1.ContainerStateRunning{}}, terminated(first, 3), second)
			w.tell(32)
		}, nil, nil},
		"events that are repeated": {func(w *world) {
			w.runs()
			w.engine.Inspect(first, at(2))
			w.engine.End(first, at(30), 3)
			w.create(first, 0, 1)
			w.engine.Inspect(first, at(2))
			w.engine.End(first, at(30), 3)
			w.tellEnded(first, 0, 3, 32)
		}, nil, nil},
		"never reported": {func(w *world) {
			w.create(first, 0, 1)
			w.tell(1)
		}, []string{NeverReported}, nil},
		"deleted before it was reported": {func(w *world) {
			w.create(first, 0, 1)
			w.deleted(5)
		}, nil, map[string]int{DeletedBefore: 1}},
		"not reported, and deleted long after its start": {func(w *world) {
			w.create(first, 0, 1)
			w.deleted(100)
		}, []string{NeverReported}, nil},
		"started and not reported, long after its pod was deleted": {func(w *world) {
			w.deleted(1)
			w.create(first, 0, 100)
		}, []string{NeverReported}, nil},
		"deleted long after a fault": {func(w *world) {
			w.create(first, 0, 1)
			w.faults = []Window{{at(20), at(40)}}
			w.deleted(100)
		}, nil, map[string]int{DeletedBefore: 1}},
		"replaced before it was reported": {func(w *world) {
			w.create(first, 0, 1)
			w.engine.End(first, at(2), 1)
			w.create(second, 1, 3)
			w.tellRunning(second, 1, 4)
		}, nil, map[string]int{ReplacedBefore: 1}},
		"replaced before it was reported, by a container whose start failed": {func(w *world) {
			w.create(first, 0, 1)
			w.engine.End(first, at(2), 1)
			w.makeOnly(second, 1, 3)
			w.tellEnded(second, 1, 128, 4)
		}, nil, map[string]int{ReplacedBefore: 1}},
		"not reported, and replaced long after its start, by a container whose start failed": {func(w *world) {
			w.faults = []Window{{at(-40), at(-20)}}
			w.create(first, 0, 1)
			w.engine.End(first, at(200), 1)
			w.makeOnly(second, 1, 201)
			w.tellEnded(second, 1, 128, 202)
		}, []string{NeverReported}, nil},
		"not reported, and replaced long after its start": {func(w *world) {
			w.create(first, 0, 1)
			w.engine.End(first, at(200), 1)
			w.create(second, 1, 201)
			w.tellRunning(second, 1, 202)
		}, []string{NeverReported}, nil},
		"reported and never created": {func(w *world) {
			w.tellRunning(first, 0, 2)
		}, []string{NeverWas}, nil},
		"another attempt is reported": {func(w *world) {
			w.create(first, 2, 1)
			w.tellRunning(first, 1, 2)
		}, []string{OtherAttempt}, nil},
		"another exit code is reported": {func(w *world) {
			w.create(first, 0, 1)
			w.engine.End(first, at(3), 137)
			w.tellEnded(first, 0, 0, 4)
		}, []string{OtherExitCode}, nil},
		"reported as ended while it runs": {func(w *world) {
			w.create(first, 0, 1)
			w.tellEnded(first, 0, 0, 4)
		}, []string{EndTakenBack}, nil},
		"reported as ended, then as running": {func(w *world) {
			w.ran(2)
			w.tellRunning(first, 0, 5)
			w.tellEnded(first, 0, 2, 6)
		}, []string{EndTakenBack}, nil},
		"the end was not reported": {func(w *world) {
			w.runs()
			w.engine.End(first, at(3), 2)
		}, []string{StillRunning}, nil},
		"the end was not reported for a deleted pod": {func(w *world) {
			w.runs()
			w.deleted(3)
			w.engine.End(first, at(4), 2)
		}, nil, map[string]int{DeletedEnd: 1}},
		"the end was not reported, and its pod was deleted long after it": {func(w *world) {
			w.runs()
			w.engine.End(first, at(3), 2)
			w.deleted(100)
		}, []string{StillRunning}, nil},
		"the end was not reported before a fault, and its pod was deleted": {func(w *world) {
			w.runs()
			w.engine.End(first, at(3), 2)
			w.faults = []Window{{at(20), at(40)}}
			w.deleted(100)
		}, nil, map[string]int{DeletedEnd: 1}},
		"the engine lost the end, and its pod was deleted": {func(w *world) {
			w.runs()
			w.engine.Remove(first)
			w.deleted(100)
		}, nil, map[string]int{DeletedEnd: 1}},
		"started twice": {func(w *world) {
			w.create(first, 0, 1)
			w.engine.End(first, at(10), 2)
			w.engine.Start(first, at(20))
			w.tellRunning(first, 0, 21)
		}, []string{StartedTwice}, nil},
		"started twice within a moment": {func(w *world) {
			w.runs()
			w.engine.End(first, at(2), 2)
			w.engine.Start(first, at(2))
			w.tellRunning(first, 0, 3)
		}, []string{StartedTwice}, nil},
		"started twice within a moment, the second time seen in an inspection": {func(w *world) {
			w.runs()
			w.engine.Inspect(first, at(1))
			w.engine.Inspect(first, at(2))
		}, []string{StartedTwice}, nil},
		"started twice, the first time seen in an event that came late": {func(w *world) {
			w.create(first, 0, 20)
			w.tellRunning(first, 0, 21)
			w.engine.Start(first, at(1))
		}, []string{StartedTwice}, nil},
		"restarts that went down": {func(w *world) {
			w.create(first, 0, 1)
			w.tellRunning(second, 1, 2)
			w.create(second, 0, 3)
			w.tellRunning(second, 0, 4)
			w.tellRunning(first, 0, 5)
		}, []string{RestartsSank}, nil},
		"another exit code than expected": {func(w *world) {
			w.ends("0")
			w.ran(137)
		}, []string{WrongExitCode}, nil},
		"another exit code than expected, by a fault": {func(w *world) {
			w.ends("0")
			w.faults = []Window{{at(2), at(3)}}
			w.ran(137)
		}, nil, map[string]int{FaultMeant: 1}},
		"another exit code than expected, by an eviction": {func(w *world) {
			w.ends("0")
			w.pod.Status.Phase, w.pod.Status.Reason = v1.PodFailed, "Evicted"
			w.ran(137)
		}, nil, map[string]int{DeletedMeant: 1}},
		"another exit code than expected, and another reason than an eviction": {func(w *world) {
			w.ends("0")
			w.pod.Status.Phase, w.pod.Status.Reason = v1.PodFailed, "DeadlineExceeded"
			w.ran(137)
		}, []string{WrongExitCode}, nil},
		"ran again in its pod": {func(w *world) {
			w.ends("0")
			w.ran(0)
			w.create(second, 1, 50)
			w.engine.End(second, at(51), 0)
			w.tellEnded(second, 1, 0, 52)
		}, []string{RanAgain}, nil},
		"a Job that ran again": {func(w *world) {
			jobRunsTwice(w, 0)
		}, []string{RanAgain}, nil},
		"a Job that ran again because its pod was deleted": {func(w *world) {
			jobRunsTwice(w, 20)
		}, nil, map[string]int{DeletedMeant: 1}},
		"a Job that ran again, and its pod was deleted just after the end": {func(w *world) {
			jobRunsTwice(w, 30)
		}, nil, map[string]int{DeletedMeant: 1}},
		"a Job that ran again, and its pod was deleted long after the end": {func(w *world) {
			jobRunsTwice(w, 40)
		}, []string{RanAgain}, nil},
		"a Job that ran again, and a fault came long after the end, before its pod was deleted": {func(w *world) {
			w.faults = []Window{{at(38), at(39)}}
			jobRunsTwice(w, 40)
		}, []string{RanAgain}, nil},
		"a Job that ran again by a fault just after the end": {func(w *world) {
			w.faults = []Window{{at(30), at(40)}}
			jobRunsTwice(w, 0)
		}, nil, map[string]int{FaultMeant: 1}},
		"a Job that ran again after a fault long after the end": {func(w *world) {
			w.faults = []Window{{at(40), at(50)}}
			jobRunsTwice(w, 0)
		}, []string{RanAgain}, nil},
		"not to be found": {func(w *world) {
			vanishes(w)
		}, []string{Vanished}, nil},
		"not to be found, in a pod that is evicted": {func(w *world) {
			w.pod.Status.Reason = "Evicted"
			vanishes(w)
		}, nil, nil},
		"not to be found, in a pod that is over for another reason": {func(w *world) {
			w.pod.Status.Reason = "DeadlineExceeded"
			vanishes(w)
		}, []string{Vanished}, nil},
		"not to be found, before its pod is deleted": {func(w *world) {
			vanishes(w)
			w.deleted(5)
		}, []string{Vanished}, nil},
		"not to be found, in a pod that is deleted": {func(w *world) {
			w.deleted(3)
			vanishes(w)
		}, nil, nil},
	} {
		w := newWorld()
		test.happens(w)
		got := Whole(&w.engine, &w.api, w.faults)
		slices.Sort(test.want)
		if broken := rules(got.Differences); !slices.Equal(broken, test.want) {
			t.Errorf("%s: %q, want %q: %v", name, broken, test.want, got.Differences)
		}
		if !maps.Equal(got.Excused, test.excused) && len(got.Excused)+len(test.excused) > 0 {
			t.Errorf("%s: excused %v, want %v", name, got.Excused, test.excused)
		}
	}
}

// jobRunsTwice runs two pods of a Job to their end. deleted is the second at which the first pod is deleted, 0 for
// never.
func jobRunsTwice(w *world, deleted int) {
	owners := []metav1.OwnerReference{{Kind: "Job", Name: "job", Controller: new(true)}}
	for i, id := range []string{first, second} {
		w.pod = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "job-" + string(rune('a'+i)), UID: types.UID("j" + id),
				OwnerReferences: owners}}
		w.ends("0")
		w.create(id, 0, 10+60*i)
		w.engine.End(id, at(21+60*i), 0)
		w.tellEnded(id, 0, 0, 22+60*i)
		if i == 0 && deleted != 0 {
			w.deleted(deleted)
		}
	}
}

// vanishes reports a container that the kubelet could not find.
func vanishes(w *world) {
	state := terminated("", 137)
	state.Reason, state.ContainerID = vanished, ""
	w.status(0, v1.ContainerState{Terminated: state}, nil, "")
	w.tell(4)
}

// A printed difference names the pod, the container, and the state on each side.
func TestDifferenceString(t *testing.T) {
	w := newWorld()
	w.create(first, 0, 1)
	w.engine.End(first, at(3), 137)
	w.tellEnded(first, 0, 0, 4)
	all := Whole(&w.engine, &w.api, nil).Differences
	const want = "web/main: the exit codes differ; engine: 111111111111 attempt 0, started 03:00:01, ended with " +
		"137 at 03:00:03; " +
		"API server: 111111111111 ended with 0 (Error), restart count 0"
	testutil.Assert(t, len(all) == 1 && all[0].String() == want, "%v, want %s", all, want)
}
