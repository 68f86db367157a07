package image

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
)

// node is an engine in memory and a service whose cache follows it.
type node struct {
	*Service
	engine *dockertest.Engine
	// deaf drops all events while it is set. Tests set it before the first event to drop.
	deaf bool
}

// onNode runs a test on an engine of each flavor, in a synctest bubble: time passes only while every goroutine waits.
// wrap may be nil.
func onNode(
	t *testing.T, opts dockertest.Options, wrap func(docker.Engine) docker.Engine, test func(*testing.T, *node),
) {
	t.Helper()
	for name, flavor := range flavors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts.Flavor = flavor
				engine := dockertest.New(opts)
				defer engine.Close()
				seen := docker.Engine(engine)
				if wrap != nil {
					seen = wrap(engine)
				}
				n := &node{engine: engine}
				n.Service = newService(t, Options{Engine: seen})
				defer n.follow(t)()
				test(t, n)
			})
		})
	}
}

// follow passes the engine's events on and runs the cache, as the program does.
func (n *node) follow(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			_ = n.engine.Events(ctx, docker.EventsOptions{Subscribed: n.Relist, Handle: func(event docker.Event) {
				if !n.deaf {
					n.Changed(event.ID)
				}
			}})
			_ = pace.Sleep(ctx, 100*time.Millisecond)
		}
	})
	group.Go(func() {
		testutil.FailsWith(t, n.Run(ctx), context.Canceled, "Run")
	})
	settle()
	return func() { cancel(); group.Wait() }
}

// settle waits for the longest time in which a foreign change with an event becomes visible.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// tags returns the tags of all images. It checks that the list has each image once, in order.
func (n *node) tags(t *testing.T) []string {
	t.Helper()
	list, err := n.List(t.Context(), nil)
	testutil.Must(t, err)
	var tags []string
	for i, img := range list {
		if i > 0 && list[i-1].GetId() >= img.GetId() {
			t.Errorf("%s is listed twice or out of order", img.GetId())
		}
		tags = append(tags, img.GetRepoTags()...)
	}
	slices.Sort(tags)
	return tags
}

// calls is the number of calls that the engine got.
func (n *node) calls() int {
	sum := 0
	for _, call := range []string{"ListImages", "InspectImage", "Features", "Ping", "ListContainers",
		"InspectContainer"} {
		sum += n.engine.Calls(call)
	}
	return sum
}

func TestAnswersComeFromMemory(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2"}, User: "7"}, {Names: []string{"b"}}}
	onNode(t, dockertest.Options{Images: images}, nil, func(t *testing.T, n *node) {
		img := statusOf(t, n.Service, "a:1")
		ask := func(when string) {
			before := n.calls()
			for range 3 {
				if tags := n.tags(t); !slices.Equal(tags, []string{"a:1", "a:2", "b:latest"}) {
					t.Errorf("%s: the list has %v", when, tags)
				}
				for _, ref := range []string{"a:1", "docker.io/library/a:2", img.GetId(), img.GetId()[:20],
					img.GetRepoDigests()[0]} {
					if got := statusOf(t, n.Service, ref); got.GetId() != img.GetId() || got.GetUid().GetValue() != 7 {
						t.Errorf("%s: %s is %v", when, ref, got)
					}
				}
				got := statusOf(t, n.Service, "unknown:1")
				testutil.Assert(t, got == nil, "%s: got %v", when, got)
				verbose, err := n.Status(t.Context(), spec("a:1"), StatusOptions{Verbose: true})
				testutil.Assert(t, err == nil && strings.Contains(verbose.GetInfo()["info"], "imageSpec"),
					"%s: got %v, %v", when, verbose, err)
				id, err := n.Resolve(t.Context(), "a:2")
				testutil.Assert(t, err == nil && id == img.GetId(), "%s: resolved to %s, %v", when, id, err)
			}
			calls := n.calls() - before
			testutil.Assert(t, calls == 0, "%s: %d engine calls", when, calls)
		}
		ask("engine up")
		n.engine.Away()
		ask("engine away")
	})
}

func TestForeignChangesAreVisibleWithinASecond(t *testing.T) {
	opts := dockertest.Options{
		Images: []dockertest.Image{{Names: []string{"a:1"}}, {Names: []string{"b:1"}}},
		Registry: []dockertest.Image{{Names: []string{"pulled:1"}},
			{Names: []string{"a:1"}, ID: idOf("1234"), User: "9"}},
	}
	archive, err := pause.Archive("amd64")
	testutil.Must(t, err)
	for what, tt := range map[string]struct {
		change func(context.Context, *dockertest.Engine) error
		want   []string
	}{
		"tag": {func(ctx context.Context, e *dockertest.Engine) error { return e.TagImage(ctx, "a:1", "a:2") },
			[]string{"a:1", "a:2", "b:1"}},
		"tag of another image": {func(ctx context.Context, e *dockertest.Engine) error {
			return e.TagImage(ctx, "a:1", "b:1")
		},
			[]string{"a:1", "b:1"}},
		"removal": {func(ctx context.Context, e *dockertest.Engine) error { return e.RemoveImage(ctx, "a:1") },
			[]string{"b:1"}},
		"pull": {func(ctx context.Context, e *dockertest.Engine) error {
			return e.PullImage(ctx, "pulled:1", docker.PullOptions{})
		}, []string{"a:1", "b:1", "pulled:1"}},
		"load": {func(ctx context.Context, e *dockertest.Engine) error {
			return e.LoadImage(ctx, bytes.NewReader(archive))
		}, []string{"a:1", "b:1", pause.Reference}},
	} {
		t.Run(what, func(t *testing.T) {
			onNode(t, opts, nil, func(t *testing.T, n *node) {
				testutil.Must(t, tt.change(t.Context(), n.engine))
				settle()
				tags := n.tags(t)
				testutil.Assert(t, slices.Equal(tags, tt.want), "the list has %v, want %v", tags, tt.want)
				for _, tag := range tt.want {
					inspect, err := n.engine.InspectImage(t.Context(), tag)
					if got := statusOf(t, n.Service, tag); err != nil || got.GetId() != inspect.ID {
						t.Errorf("%s is %v, want %s, %v", tag, got, inspect.ID, err)
					}
				}
			})
		})
	}
}

// An event about an image leads to an inspect, even if the engine's list shows no change of the image.
func TestImageOfAnEventIsInspected(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1"}}, {Names: []string{"b:1"}}}
	onNode(t, dockertest.Options{Images: images}, nil, func(t *testing.T, n *node) {
		id := statusOf(t, n.Service, "a:1").GetId()
		for _, ref := range []string{id, "a:1"} {
			before := n.engine.Calls("InspectImage")
			n.Changed(ref)
			settle()
			more := n.engine.Calls("InspectImage") - before
			testutil.Assert(t, more == 1, "after an event about %s: %d inspects", ref, more)
		}
	})
}

func TestChangeWithoutEventIsVisibleWithinAMinute(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1"}}}
	onNode(t, dockertest.Options{Images: images}, nil, func(t *testing.T, n *node) {
		n.deaf = true
		testutil.Must(t, n.engine.TagImage(t.Context(), "a:1", "a:2"))
		settle()
		tags := n.tags(t)
		testutil.Require(t, len(tags) == 1, "the event was not lost: %v", tags)
		id, err := n.Resolve(t.Context(), "a:2")
		testutil.Assert(t, err == nil && id != "", "a container of it is refused: %v", err)
		time.Sleep(time.Minute - time.Second)
		tags = n.tags(t)
		testutil.Assert(t, slices.Equal(tags, []string{"a:1", "a:2"}), "after a minute the list has %v", tags)
	})
}

func TestReconnectIsFollowedByARelist(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1"}}}
	onNode(t, dockertest.Options{Images: images, Registry: []dockertest.Image{{Names: []string{"new:1"}}}}, nil,
		func(t *testing.T, n *node) {
			n.deaf = true
			n.engine.Away()
			time.Sleep(10 * time.Minute)
			tags := n.tags(t)
			testutil.Assert(t, slices.Equal(tags, []string{"a:1"}), "while the engine is away the list has %v", tags)
			n.engine.Back()
			testutil.Must(t, n.engine.PullImage(t.Context(), "new:1", docker.PullOptions{}))
			settle()
			tags = n.tags(t)
			testutil.Assert(t, slices.Equal(tags, []string{"a:1", "new:1"}), "when it is back the list has %v", tags)
		})
}

// No event is lost when a relist fails.
func TestFailedRelistIsRepeated(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1"}, User: "1"}}
	onNode(t, dockertest.Options{Images: images}, nil, func(t *testing.T, n *node) {
		n.engine.Inject("ListImages", dockertest.Fault{Times: 2, Err: errdefs.ErrInternal})
		before := n.engine.Calls("InspectImage")
		n.Changed("a:1")
		settle()
		testutil.Equal(t, n.engine.Calls("InspectImage")-before, 1, "inspects")
	})
}

// A burst of hundreds of events costs at most three lists, and a quiet node costs about one list a minute.
func TestBurstsOfEventsShareLists(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1"}}}
	onNode(t, dockertest.Options{Images: images}, nil, func(t *testing.T, n *node) {
		before := n.engine.Calls("ListImages")
		for i := range 300 {
			testutil.Must(t, n.engine.TagImage(t.Context(), "a:1", fmt.Sprintf("a:%d", i)))
		}
		settle()
		tags := n.tags(t)
		testutil.Assert(t, len(tags) == 300, "%d tags are listed", len(tags))
		lists := n.engine.Calls("ListImages") - before
		testutil.Assert(t, lists <= 3, "%d lists for one burst", lists)
		before = n.calls()
		time.Sleep(10 * time.Minute)
		more := n.calls() - before
		testutil.Assert(t, more <= 14, "%d calls in ten quiet minutes", more)
	})
}

// staleLists is an engine whose lists arrive late. A list lacks the changes since the engine made the list.
type staleLists struct {
	docker.Engine
	mu sync.Mutex
	// The engine closes made when the next list is made. The list arrives when the test closes hold. Both channels are
	// nil if the next list is not held back.
	hold, made chan struct{}
}

func (e *staleLists) ListImages(ctx context.Context) ([]image.Summary, error) {
	list, err := e.Engine.ListImages(ctx)
	e.mu.Lock()
	hold, made := e.hold, e.made
	e.hold, e.made = nil, nil
	e.mu.Unlock()
	if hold != nil {
		close(made)
		<-hold
	}
	return list, err
}

// next holds the next list back.
func (e *staleLists) next() (made <-chan struct{}, arrive func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold, e.made = make(chan struct{}), make(chan struct{})
	hold := e.hold
	return e.made, func() { close(hold) }
}

// A caller reads its own writes, even if a list that was made before them arrives after them.
func TestCallersReadTheirOwnWrites(t *testing.T) {
	opts := dockertest.Options{
		Images:   []dockertest.Image{{Names: []string{"old:1", "old:2"}}, {Names: []string{"moved:1"}}},
		Registry: []dockertest.Image{{Names: []string{"pulled:1"}}, {Names: []string{"moved:1"}, ID: idOf("1234")}},
	}
	for what, tt := range map[string]struct {
		do   func(context.Context, *node) error
		want []string
	}{
		"pull": {func(ctx context.Context, n *node) error {
			id, err := n.Pull(ctx, spec("pulled:1"), nil)
			if got, statusErr := n.Status(ctx, spec("pulled:1"), StatusOptions{}); got.GetImage().GetId() != id {
				return fmt.Errorf("pulled %s, its status is %v, %v", id, got, statusErr)
			}
			return err
		}, []string{"moved:1", "old:1", "old:2", "pulled:1"}},
		"pull of a tag that moved": {func(ctx context.Context, n *node) error {
			id, err := n.Pull(ctx, spec("moved:1"), nil)
			if id != idOf("1234") {
				return fmt.Errorf("pulled %s, %v", id, err)
			}
			return err
		}, []string{"moved:1", "old:1", "old:2"}},
		"removal": {func(ctx context.Context, n *node) error {
			return n.Remove(ctx, spec("old:2"))
		}, []string{"moved:1"}},
		"sandbox image": {func(ctx context.Context, n *node) error {
			_, err := n.EnsureSandboxImage(ctx)
			return err
		}, []string{pause.Reference, "moved:1", "old:1", "old:2"}},
	} {
		t.Run(what, func(t *testing.T) {
			var engine *staleLists
			wrap := func(e docker.Engine) docker.Engine { engine = &staleLists{Engine: e}; return engine }
			onNode(t, opts, wrap, func(t *testing.T, n *node) {
				n.deaf = true // no event helps
				made, arrive := engine.next()
				n.Relist()
				<-made
				check := func(when string) {
					tags := n.tags(t)
					testutil.Assert(t, slices.Equal(tags, tt.want), "%s: the list has %v, want %v", when, tags, tt.want)
				}
				testutil.Must(t, tt.do(t.Context(), n))
				check("while an older list is on its way")
				arrive()
				synctest.Wait()
				check("after it arrived")
				settle()
				check("later")
			})
		})
	}
}

// A write during the first list is in the first answer.
func TestFirstListKeepsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := dockertest.New(dockertest.Options{
			Images:   []dockertest.Image{{Names: []string{"a:1"}}, {Names: []string{"b:1"}}},
			Registry: []dockertest.Image{{Names: []string{"c:1"}}},
		})
		defer memory.Close()
		engine := &staleLists{Engine: memory}
		s := newService(t, Options{Engine: engine})
		made, arrive := engine.next()
		listed := make(chan []*runtimeapi.Image)
		go func() {
			list, err := s.List(t.Context(), nil)
			testutil.Check(t, err)
			listed <- list
		}()
		<-made
		_, err := s.Pull(t.Context(), spec("c:1"), nil)
		testutil.Must(t, err)
		testutil.Must(t, s.Remove(t.Context(), spec("a:1")))
		arrive()
		var tags []string
		for _, img := range <-listed {
			tags = append(tags, img.GetRepoTags()...)
		}
		if slices.Sort(tags); !slices.Equal(tags, []string{"b:1", "c:1"}) {
			t.Errorf("the first list has %v", tags)
		}
	})
}

// The removal of an image stays visible if the engine goes away right after it.
func TestRemovalBeforeTheEngineGoesAway(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1"}}, {Names: []string{"b:1"}}}
	onNode(t, dockertest.Options{Images: images}, nil, func(t *testing.T, n *node) {
		n.deaf = true
		n.engine.Inject("InspectImage", dockertest.Fault{Object: statusOf(t, n.Service, "a:1").GetId()})
		testutil.Must(t, n.Remove(t.Context(), spec("a:1")))
		tags := n.tags(t)
		testutil.Assert(t, slices.Equal(tags, []string{"b:1"}), "the list has %v", tags)
	})
}

// Readers see whole snapshots and write nothing while images come and go.
func TestConcurrentReadersAndWriters(t *testing.T) {
	opts := dockertest.Options{Images: []dockertest.Image{{Names: []string{"a:1"}}}}
	for i := range 8 {
		opts.Registry = append(opts.Registry, dockertest.Image{Names: []string{fmt.Sprintf("r%d:1", i)}})
	}
	onNode(t, opts, nil, func(t *testing.T, n *node) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				ref := fmt.Sprintf("r%d:1", i)
				for range 20 {
					id, err := n.Pull(t.Context(), spec(ref), nil)
					testutil.Assert(t, err == nil && statusOf(t, n.Service, ref).GetId() == id,
						"%s: after the pull it is %v, %v", ref, id, err)
					if err := n.Remove(t.Context(), spec(ref)); err != nil || statusOf(t, n.Service, ref) != nil {
						t.Errorf("%s: it is there after its removal, %v", ref, err)
					}
					tags := n.tags(t)
					testutil.Assert(t, slices.Contains(tags, "a:1"), "the list has %v", tags)
				}
			})
		}
		group.Wait()
		settle()
		tags := n.tags(t)
		testutil.Assert(t, slices.Equal(tags, []string{"a:1"}), "left: %v", tags)
	})
}
