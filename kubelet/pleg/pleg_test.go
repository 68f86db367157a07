package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

func TestCompare(t *testing.T) {
	const (
		run     = runtimeapi.ContainerState_CONTAINER_RUNNING
		exit    = runtimeapi.ContainerState_CONTAINER_EXITED
		created = runtimeapi.ContainerState_CONTAINER_CREATED
		unknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN
	)
	with := func(state runtimeapi.ContainerState) *cri.Pod {
		return &cri.Pod{Containers: map[string]runtimeapi.ContainerState{"c": state}}
	}
	sandbox := func(state runtimeapi.PodSandboxState) *cri.Pod {
		return &cri.Pod{Sandboxes: map[string]runtimeapi.PodSandboxState{"s": state}}
	}
	for _, test := range []struct {
		name          string
		before, after *cri.Pod
		want          []Kind
	}{
		{"nothing", nil, nil, nil},
		{"the same", with(run), with(run), nil},
		{"made", nil, with(created), []Kind{Changed}},
		{"started", with(created), with(run), []Kind{Started}},
		{"made and started", nil, with(run), []Kind{Started}},
		{"died", with(run), with(exit), []Kind{Died}},
		{"came and died", nil, with(exit), []Kind{Died}},
		{"removed after it died", with(exit), nil, []Kind{Removed}},
		{"died and removed", with(run), nil, []Kind{Died, Removed}},
		{"unknown", with(run), with(unknown), []Kind{Changed}},
		{"sandbox started", nil, sandbox(runtimeapi.PodSandboxState_SANDBOX_READY), []Kind{Started}},
		{"sandbox died", sandbox(runtimeapi.PodSandboxState_SANDBOX_READY),
			sandbox(runtimeapi.PodSandboxState_SANDBOX_NOTREADY), []Kind{Died}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var kinds []Kind
			for _, event := range compare("u", test.before, test.after) {
				kinds = append(kinds, event.Kind)
			}
			testutil.Assert(t, slices.Equal(kinds, test.want), "got %v, want %v", kinds, test.want)
		})
	}
}

// runtime is a fake runtime with an event stream.
type runtime struct {
	*apitest.FakeRuntimeService
	stream func(ctx context.Context, events chan *runtimeapi.ContainerEventResponse) error
}

func (r *runtime) GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse,
	_ func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	return r.stream(ctx, events)
}

var _ internalapi.RuntimeService = (*runtime)(nil)

func unimplemented(context.Context, chan *runtimeapi.ContainerEventResponse) error {
	return status.Error(codes.Unimplemented, "no events here")
}

// pod adds a sandbox and a container.
func (r *runtime) pod(t *testing.T, uid, owner string) (container string) {
	t.Helper()
	labels := map[string]string{model.LabelPodUID: uid, model.LabelPodName: uid, model.LabelPodNamespace: "default",
		model.LabelOwner: owner}
	sandbox, err := r.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: uid, Namespace: "default", Uid: uid}, Labels: labels,
	}, "")
	testutil.Must(t, err)
	container, err = r.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "i"}, Labels: labels,
	}, nil)
	testutil.Must(t, err)
	testutil.Must(t, r.StartContainer(t.Context(), container))
	return container
}

// inBubble runs a generator in fake time.
func inBubble(t *testing.T, r *runtime, opts Options, test func(g *Generator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn := cri.New(r, nil, "us")
		opts.Runtime, opts.Cache = conn, NewCache(conn)
		g := New(opts)
		go g.Run(t.Context())
		test(g)
	})
}

// sent are the events sent since the last call.
func sent(g *Generator) string {
	synctest.Wait()
	var words []string
	for {
		select {
		case e := <-g.Events():
			words = append(words, fmt.Sprintf("%s:%s", e.UID, strings.TrimPrefix(string(e.Kind), "Container")))
			continue
		default:
		}
		slices.Sort(words)
		return strings.Join(words, " ")
	}
}

func TestRelist(t *testing.T) {
	g := New(Options{})
	testutil.Assert(t, g.Pods() == nil && g.Err() != nil, "pods are known before the first list")
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService(), stream: unimplemented}
	container := r.pod(t, "a", "us")
	r.pod(t, "theirs", "them")
	inBubble(t, r, Options{}, func(g *Generator) {
		testutil.Equal(t, sent(g), "a:Started a:Started", "first list")
		testutil.Assert(t, g.Err() == nil && !g.Streaming() && len(g.Pods()) == 1,
			"error %v, streaming %v, pods %v", g.Err(), g.Streaming(), g.Pods())
		time.Sleep(time.Second)
		testutil.Equal(t, sent(g), "", "nothing happened")
		testutil.Check(t, r.StopContainer(t.Context(), container, 0))
		time.Sleep(time.Second)
		testutil.Equal(t, sent(g), "a:Died", "stopped")
		observed, err := g.opts.Cache.PodStatus(t.Context(), "a")
		testutil.Assert(t, err == nil && observed.Container("c").State == model.StateExited,
			"the cache says %+v, %v", observed, err)
	})
}

// TestRuntimeAway: Err returns an error after three minutes without a list, until the next list.
func TestRuntimeAway(t *testing.T) {
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService(), stream: unimplemented}
	r.pod(t, "a", "us")
	inBubble(t, r, Options{}, func(g *Generator) {
		sent(g)
		for range 200 {
			r.InjectError("ListPodSandbox", errors.New("away"))
		}
		time.Sleep(190 * time.Second)
		got := sent(g)
		testutil.Assert(t, got == "" && g.Err() != nil, "away: %q, %v", got, g.Err())
		time.Sleep(20 * time.Second)
		got = sent(g)
		testutil.Assert(t, got == "" && g.Err() == nil, "back: %q, %v", got, g.Err())
	})
}

// TestCacheAsksOnce counts the calls for a pod: none if the cached status shows all changes, else one.
func TestCacheAsksOnce(t *testing.T) {
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService(), stream: unimplemented}
	asked := func() int {
		return len(slices.DeleteFunc(r.GetCalls(), func(call string) bool { return call != "PodSandboxStatus" }))
	}
	inBubble(t, r, Options{}, func(g *Generator) {
		look := func(want int, when string) {
			t.Helper()
			sent(g)
			before := asked()
			for range 3 {
				_, err := g.opts.Cache.PodStatus(t.Context(), "a")
				testutil.Check(t, err)
			}
			testutil.Equal(t, asked()-before, want, "%s: asked", when)
		}
		container := r.pod(t, "a", "us")
		look(1, "never asked before")
		time.Sleep(time.Second)
		look(0, "listed for the first time, as the cache has it")
		testutil.Check(t, r.StopContainer(t.Context(), container, 0))
		look(0, "died, and the generator has not listed yet")
		time.Sleep(time.Second)
		look(1, "died")
		testutil.Check(t, r.StartContainer(t.Context(), container))
		time.Sleep(time.Second)
		look(1, "runs again")
		time.Sleep(time.Minute)
		look(0, "idle")
		r.InjectError("ListPodSandbox", errors.New("no luck"))
		_, err := g.opts.Cache.Refresh(t.Context(), "a")
		testutil.Assert(t, err != nil, "no error")
		look(1, "after a failed Refresh")
	})
}

// event is an event of a pod's container or, with the sandbox's id, of its sandbox.
func event(uid, sandbox, id string, kind runtimeapi.ContainerEventType) *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind,
		PodSandboxStatus: &runtimeapi.PodSandboxStatus{
			Id: sandbox, Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid},
			Labels: map[string]string{model.LabelOwner: "us"},
		},
	}
}

// evented makes the runtime stream the events that are sent to the channel, until broken gets a value.
func (r *runtime) evented() (events chan<- *runtimeapi.ContainerEventResponse, broken chan<- struct{}) {
	in, end := make(chan *runtimeapi.ContainerEventResponse), make(chan struct{})
	r.stream = func(ctx context.Context, out chan *runtimeapi.ContainerEventResponse) error {
		for {
			select {
			case event := <-in:
				out <- event
			case <-end:
				return status.Error(codes.Unavailable, "gone")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return in, end
}

// listedBefore starts a generator, waits for its first list, and then makes the pod a.
func (r *runtime) listedBefore(t *testing.T) (g *Generator, container, sandbox string) {
	t.Helper()
	conn := cri.New(r, nil, "us")
	g = New(Options{Runtime: conn, Cache: NewCache(conn)})
	go g.Run(t.Context())
	sent(g)
	container = r.pod(t, "a", "us")
	return g, container, r.Containers[container].SandboxID
}

// TestEventBeforeTheList: an event from before the last list changes nothing, and another list follows soon. A later
// event counts.
func TestEventBeforeTheList(t *testing.T) {
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService()}
	synctest.Test(t, func(t *testing.T) {
		events, _ := r.evented()
		container := r.pod(t, "a", "us")
		sandbox := r.Containers[container].SandboxID
		testutil.Must(t, r.StopContainer(t.Context(), container, 0))
		conn := cri.New(r, nil, "us")
		g := New(Options{Runtime: conn, Cache: NewCache(conn)})
		go g.Run(t.Context())
		events <- event("a", sandbox, sandbox, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
		time.Sleep(2 * time.Second)
		sent(g)
		for _, test := range []struct {
			age   time.Duration
			want  string
			lists int
		}{{time.Minute, "", 1}, {0, "a:Started", 0}} {
			calls := len(r.GetCalls())
			started := event("a", sandbox, container, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
			started.CreatedAt = time.Now().Add(-test.age).UnixNano()
			events <- started
			testutil.Equal(t, sent(g), test.want, "events after a runtime's event of age %v", test.age)
			time.Sleep(1100 * time.Millisecond)
			lists := len(r.GetCalls()[calls:]) / 2
			testutil.Equal(t, lists, test.lists, "lists after a runtime's event of age %v", test.age)
		}
	})
}

// TestEvented: changes in the stream are sent at once and lists are rare, until the stream ends.
func TestEvented(t *testing.T) {
	const (
		created = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
		started = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
		stopped = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
		deleted = runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
	)
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService()}
	synctest.Test(t, func(t *testing.T) {
		events, broken := r.evented()
		g, container, sandbox := r.listedBefore(t)
		events <- event("a", sandbox, sandbox, created) // the first event opens the stream
		got := sent(g)
		testutil.Assert(t, got == "a:Started a:Started" && g.Streaming(), "%q, streaming %v", got, g.Streaming())
		calls := len(r.GetCalls())
		for _, step := range []struct {
			event *runtimeapi.ContainerEventResponse
			want  string
		}{
			{event("a", sandbox, sandbox, started), ""}, // the list had the ready sandbox
			{event("a", sandbox, container, created), ""},
			{event("a", sandbox, container, started), ""},
			{event("a", sandbox, "next", created), "a:Changed"},
			{event("a", sandbox, "next", started), "a:Started"},
			{event("a", sandbox, "next", stopped), "a:Died"},
			{event("a", sandbox, "next", stopped), ""},
			{event("a", sandbox, "next", deleted), "a:Removed"},
			{event("a", sandbox, "next", deleted), ""},
			{event("a", sandbox, container, stopped), "a:Died"},
			{event("a", "newer", sandbox, stopped), "a:Died"},
			{event("a", "newer", sandbox, started), "a:Started"},
			{event("b", "sandbox", "sandbox", created), ""},
			{event("b", "sandbox", "sandbox", started), "b:Started"},
			{event("b", "sandbox", "sandbox", stopped), "b:Died"},
			{event("b", "sandbox", "sandbox", deleted), "b:Removed"},
		} {
			events <- step.event
			testutil.Equal(t, sent(g), step.want, "%v", step.event)
		}
		time.Sleep(4 * time.Minute)
		extra := r.GetCalls()[calls:]
		testutil.Assert(t, len(extra) == 0, "calls while events are streamed: %q", extra)
		pods := g.Pods()
		testutil.Assert(t, len(pods) == 1 && pods["a"] != nil, "pods %v", pods)
		broken <- struct{}{}
		if got := sent(g); got != "a:Started" || g.Streaming() {
			t.Errorf("after the stream's end, when the container runs: %q, streaming %v", got, g.Streaming())
		}
		testutil.Check(t, r.StopContainer(t.Context(), container, 0))
		time.Sleep(1100 * time.Millisecond)
		testutil.Equal(t, sent(g), "a:Died", "listed")
		testutil.Equal(t, g.opts.Cache.Peek("b"), nil, "kept in the cache")
	})
}

// TestFailedListWithAStream: the list at the start of a stream fails. The next list, which finds the pod, follows after
// Relist, although lists are rare while events are streamed.
func TestFailedListWithAStream(t *testing.T) {
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService()}
	synctest.Test(t, func(t *testing.T) {
		events, _ := r.evented()
		g, _, sandbox := r.listedBefore(t)
		r.InjectError("ListPodSandbox", errors.New("away"))
		events <- event("a", sandbox, sandbox, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
		testutil.Equal(t, sent(g), "", "after a list that failed")
		time.Sleep(1100 * time.Millisecond)
		testutil.Equal(t, sent(g), "a:Started a:Started", "after the next list")
	})
}

// TestShows compares a cached status of a container with a change.
func TestShows(t *testing.T) {
	pod := func(c condition) *cri.Pod {
		if c == absent {
			return nil
		}
		return &cri.Pod{Containers: map[string]runtimeapi.ContainerState{"c": map[condition]runtimeapi.ContainerState{
			other: runtimeapi.ContainerState_CONTAINER_CREATED, running: runtimeapi.ContainerState_CONTAINER_RUNNING,
			exited: runtimeapi.ContainerState_CONTAINER_EXITED,
		}[c]}}
	}
	known := func(c condition) *model.PodStatus {
		if c == absent {
			return &model.PodStatus{}
		}
		return &model.PodStatus{Containers: []model.ContainerStatus{{ID: "c", State: map[condition]model.ContainerState{
			other: model.StateCreated, running: model.StateRunning, exited: model.StateExited,
		}[c]}}}
	}
	for _, test := range []struct {
		name                 string
		known, before, after condition
		want                 bool
	}{
		{"as the change left it", running, other, running, true},
		{"before the change", other, other, running, false},
		{"the status is newer and shows the container's end, too", exited, other, running, true},
		{"it ended, and runs again", exited, exited, running, false},
		{"its state is unknown now", exited, running, other, false},
		{"removed, and still shown", exited, exited, absent, false},
		{"removed, and not shown", absent, exited, absent, true},
		{"made, and not shown", absent, absent, other, false},
		{"no change", absent, running, running, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			testutil.Equal(t, shows(known(test.known), pod(test.before), pod(test.after)), test.want, "shows")
		})
	}
}

// TestCacheKeepsTheLaterAnswer: a late answer to an earlier call is dropped.
func TestCacheKeepsTheLaterAnswer(t *testing.T) {
	late := &model.PodStatus{UID: "a", ObservedAt: time.Unix(2, 0)}
	early := &model.PodStatus{UID: "a", ObservedAt: time.Unix(1, 0)}
	answers := []*model.PodStatus{late, early}
	c := NewCache(sourceFunc(func() *model.PodStatus {
		next := answers[0]
		answers = answers[1:]
		return next
	}))
	for range 2 {
		got, err := c.Refresh(t.Context(), "a")
		testutil.Assert(t, err == nil && got == late, "%v, %v", got, err)
	}
	got, err := c.PodStatus(t.Context(), "a")
	testutil.Assert(t, err == nil && got == late, "PodStatus does not return the cached status: %v, %v", got, err)
}

// TestLateStatusIsAskedForAgain: the cache calls the runtime until the status shows the change.
func TestLateStatusIsAskedForAgain(t *testing.T) {
	state := func(s model.ContainerState) *model.PodStatus {
		return &model.PodStatus{UID: "a", Containers: []model.ContainerStatus{{ID: "c", State: s}}}
	}
	listed := func(s runtimeapi.ContainerState) *cri.Pod {
		return &cri.Pod{Containers: map[string]runtimeapi.ContainerState{"c": s}}
	}
	answers := []*model.PodStatus{state(model.StateRunning), state(model.StateRunning), state(model.StateExited)}
	asked := 0
	c := NewCache(sourceFunc(func() *model.PodStatus {
		asked++
		return answers[asked-1]
	}))
	for _, want := range []int{1, 2, 3, 3} {
		_, err := c.PodStatus(t.Context(), "a")
		testutil.Assert(t, err == nil && asked == want, "asked %d times, want %d: %v", asked, want, err)
		if want == 1 {
			c.note("a", listed(runtimeapi.ContainerState_CONTAINER_RUNNING),
				listed(runtimeapi.ContainerState_CONTAINER_EXITED))
		}
	}
}

// remove removes the pod from the runtime.
func (r *runtime) remove(t *testing.T, uid string) {
	t.Helper()
	status, err := cri.New(r, nil, "us").PodStatus(t.Context(), types.UID(uid))
	testutil.Must(t, err)
	for _, c := range status.Containers {
		testutil.Check(t, r.RemoveContainer(t.Context(), c.ID))
	}
	for _, s := range status.Sandboxes {
		testutil.Check(t, r.RemovePodSandbox(t.Context(), s.ID))
	}
}

// TestRemovedPodLeavesTheCache: a removed pod leaves the cache, even if Refresh is called for it later.
func TestRemovedPodLeavesTheCache(t *testing.T) {
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService(), stream: unimplemented}
	inBubble(t, r, Options{}, func(g *Generator) {
		r.pod(t, "a", "us")
		time.Sleep(1100 * time.Millisecond)
		testutil.Assert(t, g.opts.Cache.Has("a") && g.opts.Cache.Peek("a") == nil, "a listed pod is not in the cache")
		r.remove(t, "a")
		g.opts.Cache.Forget("a")
		time.Sleep(time.Second)
		got := sent(g)
		testutil.Assert(t, strings.Contains(got, "a:Removed"), "removed: %q", got)
		_, err := g.opts.Cache.Refresh(t.Context(), "a")
		testutil.Check(t, err)
		time.Sleep(2 * time.Second)
		testutil.Assert(t, !g.opts.Cache.Has("a"), "a removed pod is in the cache")
	})
}

type sourceFunc func() *model.PodStatus

func (f sourceFunc) PodStatus(context.Context, types.UID) (*model.PodStatus, error) { return f(), nil }

// TestSlowReader: lists go on without a reader, and the reader gets events of all pods later.
func TestSlowReader(t *testing.T) {
	r := &runtime{FakeRuntimeService: apitest.NewFakeRuntimeService(), stream: unimplemented}
	const pods = 700 // two events each, more than the channel holds
	for i := range pods {
		r.pod(t, fmt.Sprint(i), "us")
	}
	inBubble(t, r, Options{Relist: time.Minute}, func(g *Generator) {
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		testutil.Check(t, g.Err())
		seen := map[types.UID]bool{}
		for range 3 {
			synctest.Wait()
			for len(g.Events()) > 0 {
				seen[(<-g.Events()).UID] = true
			}
			time.Sleep(time.Minute)
		}
		testutil.Assert(t, len(seen) == pods, "events of %d pods, want %d", len(seen), pods)
	})
}
