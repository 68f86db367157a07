package nri

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// An end is reported once for each run of a container, and a removal once. The clock is set back before the last run.
func TestReported(t *testing.T) {
	var r reported
	ends, removals := 0, 0
	for _, run := range []int64{2, 2, 3, 2, 3, 1, 1} {
		r.end(t.Context(), "c", time.Unix(run, 0), func(context.Context) { ends++ })
	}
	for range 2 {
		r.removal(t.Context(), "c", func(context.Context) { removals++ })
	}
	testutil.Assert(t, ends == 3 && removals == 1, "%d ends, %d removals", ends, removals)
	for run := range int64(100) {
		r.end(t.Context(), "c", time.Unix(10+run, 0), func(context.Context) {})
	}
	testutil.Equal(t, len(r.stopped["c"]), keptRuns, "remembered runs")
	r.forget("c")
	testutil.Assert(t, len(r.stopped)+len(r.removed) == 0, "left: %v, %v", r.stopped, r.removed)
}

// A report that has begun is not repeated, so it does not end with its caller.
func TestReportOutlastsItsCaller(t *testing.T) {
	var r reported
	ctx, cancel := context.WithCancel(t.Context())
	r.end(ctx, "c", time.Unix(1, 0), func(ctx context.Context) {
		cancel()
		testutil.Check(t, ctx.Err(), "the report's context")
		_, bounded := ctx.Deadline()
		testutil.Assert(t, bounded, "a report can take for ever")
	})
}

// follower is a plugin that records ends and removals.
type follower struct {
	mu     sync.Mutex
	events []string
	// synced is closed after the first list. entered is closed when the plugin hears of the pod "slow", and the plugin
	// answers when answer is closed.
	synced, entered, answer chan struct{}
	// stopping is called before the plugin answers to the end of a container, unless it is nil.
	stopping func(containerID string)
}

func (f *follower) note(event, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event+" "+id)
	return nil
}

func (f *follower) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.events))
}

func (f *follower) Synchronize(
	context.Context, []*api.PodSandbox, []*api.Container,
) ([]*api.ContainerUpdate, error) {
	close(f.synced)
	return nil, nil
}

func (f *follower) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	if pod.GetId() == "slow" {
		close(f.entered)
		<-f.answer
	}
	return f.note("StopPod", pod.GetId())
}

func (f *follower) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return f.note("RemovePod", pod.GetId())
}

func (f *follower) StopContainer(
	_ context.Context, _ *api.PodSandbox, c *api.Container,
) ([]*api.ContainerUpdate, error) {
	if f.stopping != nil {
		f.stopping(c.GetId())
	}
	return nil, f.note("StopContainer", c.GetId())
}

func (f *follower) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return f.note("RemoveContainer", pod.GetId()+"/"+c.GetId())
}

// noContainer is an engine without containers.
type noContainer struct{ Engine }

func (noContainer) InspectContainer(context.Context, string) (*container.InspectResponse, error) {
	return nil, errdefs.ErrNotFound
}

func runs(cache *state.Cache, podID string, containerIDs ...string) {
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: podID}}
	cache.PutPod(state.Pod{ID: podID, Meta: state.PodMeta{Config: config},
		Status: state.PodStatus{Running: true, NetworkReady: true, StartedAt: time.Unix(1, 0)}})
	for _, id := range containerIDs {
		cache.PutContainer(state.Container{ID: id, SandboxID: podID,
			Meta:   state.ContainerMeta{Config: &runtimeapi.ContainerConfig{}},
			Status: state.ContainerStatus{Running: true, StartedAt: time.Unix(2, 0)}})
	}
}

func ended(st *state.ContainerStatus) { st.Running, st.FinishedAt = false, time.Unix(3, 0) }

// serviceOf returns a service that does not run yet. Its plugins may answer slowly.
func serviceOf(t *testing.T, cache *state.Cache) *Service {
	t.Helper()
	adaptation.SetPluginRequestTimeout(time.Minute)
	t.Cleanup(func() { adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout) })
	dir := t.TempDir()
	s, err := New(Options{Engine: noContainer{}, Cache: cache, Socket: filepath.Join(dir, "nri.sock"),
		PluginDir: filepath.Join(dir, "plugins"), ConfigDir: filepath.Join(dir, "conf"), Version: "1",
		Claim: func() error { return nil }})
	testutil.Must(t, err)
	return s
}

// run runs the service until the end of the test.
func run(t *testing.T, s *Service) {
	testutil.Background(t, func(ctx context.Context) error {
		s.Run(ctx, nil)
		return nil
	})
}

// join connects the plugin. The caller must call leave.
func (f *follower) join(t *testing.T, s *Service) (leave func()) {
	t.Helper()
	plugin, err := stub.New(f, stub.WithPluginName("follower"), stub.WithPluginIdx("00"),
		stub.WithSocketPath(s.opts.Socket))
	testutil.Must(t, err)
	testutil.Eventually(t, func() error { return plugin.Start(t.Context()) })
	<-f.synced
	testutil.Until(t, "the plugin is counted", func() bool { return s.plugins.Load() == 1 })
	return plugin.Stop
}

// followed returns a cache whose pod "pod" runs the container "c", the cache's running service, and a plugin that has
// joined it.
func followed(t *testing.T) (*state.Cache, *Service, *follower) {
	t.Helper()
	cache := state.New(state.Options{})
	s := serviceOf(t, cache)
	runs(cache, "pod", "c")
	run(t, s)
	f := &follower{synced: make(chan struct{})}
	t.Cleanup(f.join(t, s))
	return cache, s, f
}

// loseChanges makes more changes of the pod "busy" than a subscriber's queue has room for.
func loseChanges(cache *state.Cache) {
	for i := range int64(1100) {
		cache.UpdatePod("busy", func(st *state.PodStatus) { st.StartedAt = time.Unix(10+i, 0) })
	}
}

// The plugins hear once of each end and removal that other programs make, even if changes are lost because a plugin
// answers slowly.
func TestLostChanges(t *testing.T) {
	cache := state.New(state.Options{})
	s := serviceOf(t, cache)
	runs(cache, "slow")
	runs(cache, "stopped", "left", "ended", "gone")
	runs(cache, "removed", "last")
	runs(cache, "busy")
	run(t, s)

	f := &follower{synced: make(chan struct{}), entered: make(chan struct{}), answer: make(chan struct{})}
	defer f.join(t, s)()
	cache.EndPod("slow")
	<-f.entered
	cache.UpdateContainer("ended", ended)
	cache.RemoveContainer("gone")
	cache.EndPod("stopped")
	cache.RemoveContainer("last")
	cache.RemovePod("removed")
	s.reported.record(&s.reported.removed, "removed by a request", time.Time{})
	loseChanges(cache)
	close(f.answer)
	want := []string{"RemoveContainer removed/last", "RemoveContainer stopped/gone", "RemovePod removed",
		"StopContainer ended", "StopContainer gone", "StopContainer last", "StopPod removed", "StopPod slow",
		"StopPod stopped"}
	testutil.Until(t, "the plugin has heard of everything", func() bool { return len(f.seen()) >= len(want) })

	cache.RemovePod("slow") // changes are followed again
	want = append(want, "RemovePod slow")
	slices.Sort(want)
	testutil.Until(t, "the plugin has heard of the next removal", func() bool {
		return slices.Contains(f.seen(), "RemovePod slow")
	})
	testutil.Assert(t, slices.Equal(f.seen(), want), "the plugin heard\n%q, want\n%q", f.seen(), want)
	testutil.Until(t, "removed pods and containers are forgotten", func() bool {
		ids := slices.Compact(slices.Sorted(slices.Values(s.reported.ids())))
		return slices.Equal(ids, []string{"ended", "stopped"})
	})
}

// If the socket's mode cannot be set, no plugin can connect.
func TestSocketWithoutAMode(t *testing.T) {
	s := serviceOf(t, state.New(state.Options{}))
	var err error
	s.opts.Socket = "@" + strings.ReplaceAll(t.TempDir(), "/", "-") // it has no file
	s, err = New(s.opts)
	testutil.Must(t, err)
	run(t, s)
	testutil.Assert(t, errdefs.IsUnavailable(s.ready(t.Context())), "NRI has started: %v", s.failed)
	conn, err := net.Dial("unix", s.opts.Socket)
	if err == nil {
		t.Errorf("a plugin can connect")
		_ = conn.Close()
	}
}

// The containers of a pod that has lost its network still run. Plugins hear of the pod's end after the ends of its
// containers.
func TestLostNetworkIsNoEnd(t *testing.T) {
	cache, _, f := followed(t)
	cache.UpdatePod("pod", func(st *state.PodStatus) { st.NetworkReady = false })
	cache.UpdateContainer("c", ended)
	testutil.Until(t, "the plugin has heard of an end", func() bool { return len(f.seen()) > 0 })
	testutil.Assert(t, slices.Equal(f.seen(), []string{"StopContainer c"}), "the plugin heard %q", f.seen())
	cache.EndPod("pod")
	testutil.Until(t, "the plugin has heard of the pod's end", func() bool { return len(f.seen()) == 2 })
}

// Another program starts a container again. The plugins hear of the end of each run, and not again at the removal. The
// change may already show the next run, or the report of the start may come after the end.
func TestEndsOfEachRun(t *testing.T) {
	cache, s, f := followed(t)
	pod, err := cache.Snapshot().Pod("pod")
	testutil.Must(t, err)
	startAgain := func(at int64) func(*state.ContainerStatus) {
		return func(st *state.ContainerStatus) { st.Running, st.StartedAt = true, time.Unix(at, 0) }
	}
	for i, change := range []func(*state.ContainerStatus){ended, startAgain(5), startAgain(7),
		func(st *state.ContainerStatus) { st.Running, st.FinishedAt = false, time.Unix(8, 0) }} {
		cache.UpdateContainer("c", change)
		want := []int{1, 1, 2, 3}[i]
		testutil.Until(t, "the plugin has heard of each end", func() bool { return len(f.seen()) == want })
	}
	c, err := cache.Snapshot().Container("c")
	testutil.Must(t, err)
	s.ContainerStarted(t.Context(), pod, c)
	s.RemoveContainer(t.Context(), pod, c)
	testutil.Equal(t, len(f.seen()), 4, "ends and the removal")
}

// Before the removal of a container that never ran, plugins hear of the container's end.
func TestRemovalOfContainerThatNeverRan(t *testing.T) {
	cache := state.New(state.Options{})
	s := serviceOf(t, cache)
	runs(cache, "pod", "c")
	cache.UpdateContainer("c", func(st *state.ContainerStatus) { *st = state.ContainerStatus{} })
	run(t, s)
	f := &follower{synced: make(chan struct{})}
	defer f.join(t, s)()
	c, err := cache.Snapshot().Container("c")
	testutil.Must(t, err)
	for range 2 {
		s.RemoveContainer(t.Context(), cache.Snapshot().PodOf(c), c)
		want := []string{"RemoveContainer pod/c", "StopContainer c"}
		testutil.Assert(t, slices.Equal(f.seen(), want), "the plugin heard %q, want %q", f.seen(), want)
	}
}

// UndoPod and UndoContainer report an end and a removal to the plugins. They leave an entry in reported only for a
// container that is in the cache. This entry goes when the cache removes the container. Before the start of NRI nothing
// is reported, because no plugin was asked.
func TestUndo(t *testing.T) {
	cache := state.New(state.Options{})
	s := serviceOf(t, cache)
	runs(cache, "pod", "shown")
	pod, err := cache.Snapshot().Pod("pod")
	testutil.Must(t, err)
	undo := func() {
		s.UndoPod(t.Context(), &state.Pod{ID: "new pod"})
		for _, id := range []string{"hidden", "shown"} {
			s.UndoContainer(t.Context(), pod, &state.Container{ID: id})
		}
	}
	undo()
	run(t, s)
	f := &follower{synced: make(chan struct{})}
	defer f.join(t, s)()
	undo()
	ids := s.reported.ids()
	testutil.Assert(t, slices.Equal(slices.Compact(ids), []string{"shown"}), "remembered are %v", ids)
	cache.RemoveContainer("shown")
	testutil.Until(t, "the container is forgotten", func() bool { return len(s.reported.ids()) == 0 })
	want := []string{"RemoveContainer pod/hidden", "RemoveContainer pod/shown", "RemovePod new pod",
		"StopContainer hidden", "StopContainer shown", "StopPod new pod"}
	testutil.Assert(t, slices.Equal(f.seen(), want), "the plugin heard\n%q, want\n%q", f.seen(), want)
}

// A removal is reported once. The removed pod and container still stand in a change of a sibling container that was
// queued earlier. This change causes no second report, even if changes are lost again.
func TestQueuedChangeOfSibling(t *testing.T) {
	for name, loseAt := range map[string]string{
		"before the queued removals": "sibling",
		"after the queued removals":  "other",
	} {
		t.Run("changes are lost "+name, func(t *testing.T) {
			cache := state.New(state.Options{})
			runs(cache, "pod", "sibling", "gone")
			runs(cache, "busy", "other")
			s := serviceOf(t, cache)
			testutil.Must(t, s.adaptation.Start())
			defer s.adaptation.Stop()
			close(s.started)
			f := &follower{synced: make(chan struct{}), stopping: func(id string) {
				if id == loseAt {
					loseChanges(cache)
				}
			}}
			defer f.join(t, s)()

			startAgain := func(st *state.ContainerStatus) { st.StartedAt = time.Unix(5, 0) } // its end was not seen
			before := knownOf(cache.Snapshot())
			changes := cache.Subscribe()
			cache.UpdateContainer("sibling", startAgain)
			cache.RemoveContainer("gone")
			cache.RemovePod("pod")
			cache.UpdateContainer("other", startAgain)
			seen, gone := s.catchUp(t.Context(), before)
			s.follow(t.Context(), changes, seen, gone)
			changes.Close()
			testutil.Assert(t, seen.pods["pod"] == nil && seen.containers["gone"] == nil, "seen: %v", seen)

			s.catchUp(t.Context(), seen)
			want := []string{"RemoveContainer pod/gone", "RemovePod pod", "StopContainer gone", "StopContainer sibling",
				"StopPod pod"}
			if loseAt == "other" {
				want = slices.Insert(want, 3, "StopContainer other")
			}
			testutil.Assert(t, slices.Equal(f.seen(), want), "the plugin heard\n%q, want\n%q", f.seen(), want)
		})
	}
}
