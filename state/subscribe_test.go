package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func subscribe(t testing.TB, m *Cache) *Subscription {
	t.Helper()
	s := m.Subscribe()
	t.Cleanup(s.Close)
	return s
}

// received drains a subscription's queue and returns the changes as "type id" lines.
func received(t testing.TB, s *Subscription) []string {
	t.Helper()
	var got []string
	for len(s.changes) > 0 {
		change, err := s.Next(t.Context())
		testutil.Must(t, err)
		got = append(got, fmt.Sprint(change.Type, " ", change.ID))
	}
	return got
}

func wantChanges(t testing.TB, s *Subscription, want ...string) {
	t.Helper()
	got := received(t, s)
	testutil.Assert(t, slices.Equal(got, want), "received %q, want %q", got, want)
}

func TestTransitions(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	var none *Container
	made := &Container{}
	runs := &Container{Status: ContainerStatus{Running: true, StartedAt: at(1)}}
	runsAgain := &Container{Status: ContainerStatus{Running: true, StartedAt: at(5)}}
	over := &Container{Status: ContainerStatus{StartedAt: at(1), FinishedAt: at(2)}}
	overAgain := &Container{Status: ContainerStatus{StartedAt: at(5), FinishedAt: at(6)}}
	failed := &Container{Status: ContainerStatus{StartedAt: at(1), FinishedAt: at(1)}}
	for _, test := range []struct {
		name     string
		old, now *Container
		want     []ChangeType
	}{
		{"made", none, made, []ChangeType{Created}},
		{"seen running", none, runs, []ChangeType{Created, Started}},
		{"seen ended", none, over, []ChangeType{Created, Started, Stopped}},
		{"seen with a failed start", none, failed, []ChangeType{Created, Stopped}},
		{"started", made, runs, []ChangeType{Started}},
		{"ended", runs, over, []ChangeType{Stopped}},
		{"ended before it was seen running", made, over, []ChangeType{Started, Stopped}},
		{"failed to start", made, failed, []ChangeType{Stopped}},
		{"started again", over, runsAgain, []ChangeType{Started}},
		{"started again, and its end was not seen", runs, runsAgain, []ChangeType{Stopped, Started}},
		{"ran a second time unseen", over, overAgain, []ChangeType{Started, Stopped}},
		{"ended twice unseen", runs, overAgain, []ChangeType{Stopped}},
		{"removed", over, none, []ChangeType{Deleted}},
		{"removed before a start", made, none, []ChangeType{Deleted}},
		{"removed while it ran", runs, none, []ChangeType{Stopped, Deleted}},
		{"nothing", runs, runs, nil},
		{"still over", over, over, nil},
		{"never there", none, none, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := transitions(test.old, test.now)
			testutil.Assert(t, slices.Equal(got, test.want), "got %v, want %v", got, test.want)
		})
	}
}

func TestPodTransitions(t *testing.T) {
	pod := func(status PodStatus) *Pod { return &Pod{ID: "web", Status: status} }
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	ready := pod(PodStatus{Running: true, NetworkReady: true, StartedAt: at(1)})
	stopping := pod(PodStatus{Running: true, NetworkReady: true, StartedAt: at(1), Stopping: true})
	fromRecord := pod(PodStatus{Running: true, NetworkReady: true})
	unfinished := pod(PodStatus{Running: true, StartedAt: at(1)})
	over := pod(PodStatus{NetworkReady: true, StartedAt: at(1), finishedAt: at(2)})
	restarted := pod(PodStatus{Running: true, StartedAt: at(3), finishedAt: at(2)})
	overAgain := pod(PodStatus{StartedAt: at(3), finishedAt: at(4)})
	readyAgain := pod(PodStatus{Running: true, NetworkReady: true, StartedAt: at(3), finishedAt: at(2)})
	for name, tt := range map[string]struct {
		old, now *Pod
		want     []ChangeType
	}{
		"made":                                {nil, ready, []ChangeType{Created, Started}},
		"made, and its roll-back failed":      {nil, unfinished, []ChangeType{Created}},
		"seen ended":                          {nil, over, []ChangeType{Created, Stopped}},
		"its set-up was cut short, and ends":  {unfinished, over, []ChangeType{Stopped}},
		"StopPodSandbox begins":               {ready, stopping, nil},
		"StopPodSandbox ends":                 {stopping, over, []ChangeType{Stopped}},
		"its network is lost":                 {ready, unfinished, []ChangeType{Stopped}},
		"restarted, and its end was not seen": {ready, restarted, []ChangeType{Stopped}},
		"restarted":                           {over, restarted, nil},
		"ended after a restart":               {restarted, overAgain, []ChangeType{Stopped}},
		"restarted on the host's network":     {ready, readyAgain, []ChangeType{Stopped, Started}},
		"its first inspect":                   {fromRecord, ready, nil},
		"its first inspect shows a restart":   {fromRecord, restarted, []ChangeType{Stopped}},
		"ended wrongly, and seen alive again": {over, ready, []ChangeType{Started}},
		"removed":                             {over, nil, []ChangeType{Deleted}},
		"removed while it ran":                {ready, nil, []ChangeType{Stopped, Deleted}},
		"removed while its network was lost":  {restarted, nil, []ChangeType{Deleted}},
		"nothing":                             {ready, ready, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := podTransitions(tt.old, tt.now)
			testutil.Assert(t, slices.Equal(got, tt.want), "got %v, want %v", got, tt.want)
		})
	}
}

// A subscriber receives "stopped" for a pod that becomes NOTREADY while its sandbox runs. It receives no "started" for
// a second run of a sandbox.
func TestSubscriberSeesALostNetwork(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		lost, restarted := n.startPod("lost"), n.startPod("restarted")
		settle()
		s := subscribe(n, n.cache)
		n.cache.UpdatePod(lost, func(status *PodStatus) { status.NetworkReady = false })
		wantChanges(n, s, "stopped "+lost)
		n.engine.loseEvents(allEvents)
		n.must(n.engine.StopContainer(n.Context(), restarted, 0))
		time.Sleep(time.Second) // the engine's times must differ
		n.must(n.engine.StartContainer(n.Context(), restarted))
		_, err := n.cache.RefreshPod(n.Context(), restarted)
		n.must(err)
		n.wantPod(restarted, podNotReady)
		wantChanges(n, s, "stopped "+restarted)
	})
}

// A subscriber receives each change of a pod and its container, without a relist.
func TestSubscriberSeesALife(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		s := subscribe(n, n.cache)
		pod := n.startPod("web")
		settle()
		id := n.createContainer(pod, "web", "app")
		settle()
		wantChanges(n, s, "created "+pod, "started "+pod, "created "+id)
		n.start(id)
		settle()
		change, err := s.Next(n.Context())
		n.must(err)
		testutil.Assert(n, change.Type == Started && change.ID == id && !change.Time.IsZero() && change.Pod != nil &&
			change.Pod.Meta.Config.GetMetadata().GetUid() == "uid-web" && len(change.Containers) == 1 &&
			change.Containers[0].Status.Running, "received %+v", change)
		n.must(n.engine.Exit(id, 3))
		settle()
		change, err = s.Next(n.Context())
		n.must(err)
		testutil.Assert(n, change.Type == Stopped && change.Containers[0].Status.ExitCode == 3, "received %+v", change)
		n.must(n.engine.RemoveContainer(n.Context(), id))
		settle()
		n.cache.RemoveContainer(id)
		change, err = s.Next(n.Context())
		n.must(err)
		testutil.Assert(n, change.Type == Deleted && change.Pod != nil && len(change.Containers) == 0,
			"received %+v", change)
		n.cache.RemovePod(pod)
		change, err = s.Next(n.Context())
		n.must(err)
		testutil.Assert(n, change.Type == Stopped && change.ID == pod && !change.Pod.Status.Running,
			"received %+v", change)
		wantChanges(n, s, "deleted "+pod)
	})
}

// A subscriber receives the changes that a relist finds.
func TestSubscriberSeesWhatRelistsFind(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		s := subscribe(n, n.cache)
		n.engine.loseEvents(allEvents)
		n.must(n.engine.Exit(id, 0))
		settle()
		wantChanges(n, s)
		time.Sleep(n.cache.opts.relistPeriod)
		synctest.Wait()
		wantChanges(n, s, "stopped "+id)
	})
}

// A slow subscriber is cut off. Writers do not wait for it, and a quick subscriber misses no change.
func TestSlowSubscriberIsCutOff(t *testing.T) {
	m := New(Options{})
	slow, quick := subscribe(t, m), subscribe(t, m)
	m.PutContainer(Container{ID: "a"})
	wantChanges(t, quick, "created a")
	running := false
	for range subscriberQueue {
		running = !running
		m.UpdateContainer("a", func(s *ContainerStatus) { s.Running = running })
		got := received(t, quick)
		testutil.Require(t, len(got) == 1, "the quick subscriber received %q", got)
	}
	select {
	case <-slow.CutOff():
	default:
		t.Error("CutOff of the slow subscriber is not closed")
	}
	change, err := slow.Next(t.Context())
	testutil.Assert(t, errdefs.IsResourceExhausted(err), "the slow subscriber received %v, %v", change, err)
	select {
	case <-quick.CutOff():
		t.Error("the quick subscriber is cut off")
	default:
	}
	m.mu.Lock()
	left := len(m.subscribers.all)
	m.mu.Unlock()
	testutil.Assert(t, left == 1, "%d subscribers left", left)
}

func TestNextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := subscribe(t, New(Options{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("Next returned %v after %v", err, time.Since(began))
		}
	})
}

func TestClosedSubscriptionReceivesNothing(t *testing.T) {
	m := New(Options{})
	s := m.Subscribe()
	s.Close()
	s.Close()
	m.PutPod(Pod{ID: "a"})
	wantChanges(t, s)
}

// The changes that a subscriber received add up to the last snapshot. Each change is in a snapshot taken after it.
func TestSubscribersAgreeWithSnapshots(t *testing.T) {
	m := New(Options{})
	const writers, each = 4, 100
	var group sync.WaitGroup
	for range 3 {
		s := subscribe(t, m)
		group.Go(func() {
			alive := map[string]bool{}
			for range writers * each * 3 / 2 {
				change, err := s.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				_, err = m.Snapshot().Container(change.ID)
				switch {
				case change.Type == Deleted && err == nil:
					t.Errorf("deleted container %s is still there", change.ID)
				case change.Type == Deleted:
					delete(alive, change.ID)
				default:
					alive[change.ID] = true
				}
			}
			testutil.Assert(t, len(alive) == len(m.Snapshot().Containers()),
				"%d containers were received, %d are there", len(alive), len(m.Snapshot().Containers()))
		})
	}
	for w := range writers {
		group.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%03d", w, i) // no id is a prefix of another
				m.PutContainer(Container{ID: id})
				if i%2 == 0 {
					m.RemoveContainer(id)
				}
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	group.Wait()
}
