package podconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// pod returns a static pod of a manifest.
func pod(uid, name, manifest string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "default",
			Annotations: map[string]string{
				model.AnnotationConfigSource: model.SourceFile, model.AnnotationManifest: manifest,
			}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
}

// drain returns the waiting updates.
func drain(m *PodConfig) string {
	var words []string
	for {
		select {
		case u := <-m.Updates():
			for _, pod := range u.Pods {
				words = append(words, fmt.Sprintf("%s:%s:%s", u.Source, u.Op, pod.UID))
			}
		default:
			return strings.Join(words, " ")
		}
	}
}

func set(t *testing.T, m *PodConfig, source string, pods ...*v1.Pod) string {
	t.Helper()
	testutil.Must(t, m.Set(t.Context(), source, pods))
	return drain(m)
}

func edited(p *v1.Pod, edit func(*v1.Pod)) *v1.Pod {
	p = p.DeepCopy()
	edit(p)
	return p
}

func TestPodConfig(t *testing.T) {
	m := New(Options{Sources: []string{"a", "b"}})
	one, two := pod("1", "one", "x"), pod("2", "two", "x")
	image := edited(one, func(p *v1.Pod) { p.Spec.Containers[0].Image = "other" })
	resized := edited(image, func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	})
	deleted := edited(image, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	for _, step := range []struct {
		name, source string
		pods         []*v1.Pod
		want         string
	}{
		{"added", "a", []*v1.Pod{one, two}, "a:ADD:1 a:ADD:2"},
		{"nothing new", "a", []*v1.Pod{two, one}, ""},
		{"seen again", "a",
			[]*v1.Pod{edited(one, func(p *v1.Pod) { p.Annotations[model.AnnotationConfigSeen] = "later" }), two}, ""},
		{"another source", "b", []*v1.Pod{pod("3", "three", "")}, "b:ADD:3"},
		{"changed", "a", []*v1.Pod{image, two}, "a:UPDATE:1"},
		{"labelled", "a", []*v1.Pod{edited(image, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }), two},
			"a:UPDATE:1"},
		{"annotated", "a", []*v1.Pod{edited(image, func(p *v1.Pod) { p.Annotations["a"] = "b" }), two}, "a:UPDATE:1"},
		{"resized", "a", []*v1.Pod{resized, two}, "a:UPDATE:1"},
		{"back", "a", []*v1.Pod{image, two}, "a:UPDATE:1"},
		{"written again without a change", "a",
			[]*v1.Pod{edited(image, func(p *v1.Pod) { p.ResourceVersion = "7" }), two}, ""},
		{"another status", "a", []*v1.Pod{edited(image, func(p *v1.Pod) { p.Status.Message = "x" }), two},
			"a:RECONCILE:1"},
		{"removed", "a", []*v1.Pod{edited(image, func(p *v1.Pod) { p.Status.Message = "x" })}, "a:REMOVE:2"},
		{"deleted", "a", []*v1.Pod{deleted}, "a:DELETE:1"},
		{"deleted still", "a", []*v1.Pod{deleted}, ""},
		{"deleted, another status", "a", []*v1.Pod{edited(deleted, func(p *v1.Pod) { p.Status.Message = "y" })},
			"a:RECONCILE:1"},
		{"deleted sooner", "a",
			[]*v1.Pod{edited(deleted, func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64) })}, "a:DELETE:1"},
		{"deleted before it was known", "b",
			[]*v1.Pod{pod("3", "three", ""), edited(deleted, func(p *v1.Pod) { p.UID, p.Name = "9", "nine" })},
			"b:DELETE:9"},
		{"replaced by a pod of the same name", "b", []*v1.Pod{pod("4", "three", "")}, "b:REMOVE:9 b:REMOVE:3 b:ADD:4"},
		{"all gone", "a", nil, "a:REMOVE:1"},
	} {
		testutil.Equal(t, set(t, m, step.source, step.pods...), step.want, "%s", step.name)
	}
}

func TestPodConfigReady(t *testing.T) {
	m := New(Options{Sources: []string{"a", "b"}})
	set(t, m, "a")
	testutil.Assert(t, !m.SeenAllSources() && !m.Settled(), "ready before b has been seen")
	testutil.Must(t, m.Set(t.Context(), "b", []*v1.Pod{pod("1", "one", "")}))
	testutil.Assert(t, m.SeenAllSources() && !m.Settled(),
		"seen %v, settled %v before the pod of b is received", m.SeenAllSources(), m.Settled())
	<-m.Updates()
	testutil.Assert(t, m.Settled(), "not settled after the pod of b is received")
}

// TestPodConfigNames: a name belongs to the first place that lists it.
func TestPodConfigNames(t *testing.T) {
	var refused []string
	m := New(Options{Refused: func(r Refusal) { refused = append(refused, string(r.Pod.UID)) }})
	for _, step := range []struct {
		name    string
		source  string
		pods    []*v1.Pod
		want    string
		refused []string
	}{
		{"first", "a", []*v1.Pod{pod("1", "twin", "m")}, "a:ADD:1", nil},
		{"an earlier file with its name", "a", []*v1.Pod{pod("2", "twin", "b"), pod("1", "twin", "m")}, "",
			[]string{"2"}},
		{"another source with its name", "z", []*v1.Pod{pod("3", "twin", "u")}, "", []string{"3"}},
		{"edited in its place", "a", []*v1.Pod{pod("2", "twin", "b"), pod("4", "twin", "m")}, "a:REMOVE:1 a:ADD:4",
			nil},
		{"dropped by the first place", "a", []*v1.Pod{pod("2", "twin", "b")}, "a:REMOVE:4 a:ADD:2", []string{"3"}},
		{"gone, so the other source's pod is accepted", "a", nil, "a:REMOVE:2 z:ADD:3", nil},
		{"set again", "z", []*v1.Pod{pod("3", "twin", "u")}, "", nil},
		{"twice in one file", "a", []*v1.Pod{pod("5", "x", "m"), pod("6", "x", "m")}, "a:ADD:5", []string{"6"}},
		{"a UID of another source's pod", "z", []*v1.Pod{pod("5", "z", "u")}, "z:REMOVE:3", []string{"5"}},
		{"two pods with one UID", "a", []*v1.Pod{pod("5", "x", "m"), pod("5", "y", "m")}, "", []string{"5"}},
	} {
		refused = nil
		got := set(t, m, step.source, step.pods...)
		testutil.Assert(t, got == step.want && slices.Equal(refused, step.refused),
			"%s: %q refused %q, want %q refused %q", step.name, got, refused, step.want, step.refused)
	}
}

func TestSetEndsWithContext(t *testing.T) {
	m := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // more than the stream holds
		err := m.Set(ctx, "a", []*v1.Pod{pod("1", "one", "")})
		if errors.Is(err, context.Canceled) {
			return
		}
		if err := m.Set(ctx, "a", nil); errors.Is(err, context.Canceled) {
			return
		}
	}
	t.Error("Set does not wait for a reader")
}

// TestReadyWhileTheReaderIsBehind: SeenAllSources answers the reader while Set waits for the reader.
func TestReadyWhileTheReaderIsBehind(t *testing.T) {
	m := New(Options{Sources: []string{"a"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			_ = m.Set(ctx, "a", []*v1.Pod{pod(fmt.Sprint(i), "one", "")}) // Set ends with ctx
		}
	}()
	for len(m.Updates()) < cap(m.Updates()) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // now Set waits
	answered := make(chan bool)
	go func() { answered <- m.SeenAllSources() }()
	testutil.Receive(t, answered, "SeenAllSources waits for the reader, which waits for SeenAllSources")
	cancel()
	<-done
}

// TestHasPod: HasPod knows listed pods, including refused ones, before they are sent.
func TestHasPod(t *testing.T) {
	var m *PodConfig
	m = New(Options{Sources: []string{model.SourceFile, model.SourceAPI}, Refused: func(r Refusal) {
		testutil.Assert(t, m.HasPod(r.Pod.UID), "%s is refused and HasPod does not know it yet", r.Pod.UID)
	}})
	read := make(chan struct{})
	go func() {
		defer close(read)
		u := <-m.Updates()
		testutil.Assert(t, u.Op == Add && m.HasPod(u.Pods[0].UID), "%v and HasPod does not know it yet", u)
	}()
	first := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", UID: "1"}}
	second := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", UID: "2",
		Annotations: map[string]string{model.AnnotationConfigSource: model.SourceFile}}}
	for source, pod := range map[string]*v1.Pod{model.SourceAPI: first, model.SourceFile: second} {
		testutil.Must(t, m.Set(t.Context(), source, []*v1.Pod{pod}))
	}
	testutil.Assert(t, m.HasPod("1") && m.HasPod("2") && !m.HasPod("3"),
		"HasPod does not know exactly the two listed pods")
	<-read // only one pod is sent: the other has the same name and is refused
	testutil.Must(t, m.Set(t.Context(), model.SourceAPI, nil))
	testutil.Assert(t, !m.HasPod("1"), "HasPod knows a pod that its source no longer lists")
}
