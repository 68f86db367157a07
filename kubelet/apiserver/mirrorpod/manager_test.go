package mirrorpod

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/apitest"
)

// bench has a manager of mirror pods and its API server, both in fake time.
type bench struct {
	*testing.T
	server   *apitest.Server
	mirrors  *Manager
	node     atomic.Pointer[v1.Node]
	problems []string
}

func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, server: apitest.New()}
		b.node.Store(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "n"}})
		b.mirrors = New(Options{
			Pods: b.server.Core(), Node: b.node.Load,
			Problem: func(name string, _ *v1.Pod, err error) { b.problems = append(b.problems, name+": "+err.Error()) },
		})
		testutil.Background(t, b.mirrors.Run)
		synctest.Wait()
		test(b)
	})
}

func static(name, hash string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: types.UID(hash), ResourceVersion: "7",
			Labels: map[string]string{"l": "v"},
			Annotations: map[string]string{model.AnnotationConfigSource: model.SourceFile,
				model.AnnotationConfigHash: hash},
		},
		Spec:   v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: "i"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

func (b *bench) want(pods ...*v1.Pod) {
	b.mirrors.SetStaticPods(pods)
	b.mirrors.SetSourcesReady()
	b.show()
}

// show does the pod source's work: it passes the server's pod "a" to the manager. It does so three times, enough for
// the mirror pod to settle.
func (b *bench) show() {
	for range 3 {
		synctest.Wait()
		if pod := b.server.Pod("ns", "a"); pod != nil {
			b.mirrors.SetMirrorPods([]*v1.Pod{pod})
		} else {
			b.mirrors.SetMirrorPods(nil)
		}
	}
	synctest.Wait()
}

// wantMirror compares the hash of the mirror pod of static pod "a". Empty means no mirror pod.
func (b *bench) wantMirror(hash string) *v1.Pod {
	b.Helper()
	mirror := b.server.Pod("ns", "a")
	got := ""
	if mirror != nil {
		got = mirror.Annotations[model.AnnotationConfigMirror]
	}
	testutil.Assert(b, got == hash, "mirror %q, want %q", got, hash)
	return mirror
}

func (b *bench) wantCalls(want ...string) {
	b.Helper()
	got := b.server.Calls()
	testutil.Assert(b, slices.Equal(got, want), "calls %q, want %q", got, want)
}

func TestLifeOfAMirror(t *testing.T) {
	inBubble(t, func(b *bench) {
		pod := static("a", "1")
		b.want(pod)
		mirror := b.wantMirror("1")
		owner := mirror.OwnerReferences[0]
		testutil.Assert(t, mirror.UID != pod.UID && mirror.Labels["l"] == "v" && mirror.Spec.NodeName == "node" &&
			mirror.Status.Phase == v1.PodPending && owner.Kind == "Node" && owner.Name == "node" && owner.UID == "n" &&
			*owner.Controller && mirror.Spec.Tolerations[0] == staysOnNode, "mirror %+v", mirror)
		testutil.Assert(t, !model.IsMirror(pod) && pod.Spec.Tolerations == nil, "the static pod was changed")
		b.wantCalls("POST pods")
		b.want(pod)
		time.Sleep(5 * time.Minute)
		b.wantCalls()

		b.want(static("a", "2"))
		replaced := b.wantMirror("2")
		testutil.Assert(t, replaced.UID != mirror.UID, "the mirror was not replaced")
		b.wantCalls("DELETE pods/a", "POST pods")
		b.want()
		b.wantMirror("")
		testutil.Assert(t, b.problems == nil, "problems %q", b.problems)
	})
}

func TestMirrorIsMadeAnew(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(b *bench)
	}{
		{"deleted gracefully", func(b *bench) {
			testutil.Must(b, b.server.Core().Pods("ns").Delete(b.Context(), "a", metav1.DeleteOptions{}))
		}},
		{"removed by force", func(b *bench) { b.server.Remove("ns", "a") }},
		{"replaced by the mirror of another pod", func(b *bench) {
			b.server.Remove("ns", "a")
			other := static("a", "other")
			other.UID, other.Annotations[model.AnnotationConfigMirror] = "", "other"
			b.server.Put(other)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.want(static("a", "1"))
				before := b.wantMirror("1")
				test.lose(b)
				b.show()
				after := b.wantMirror("1")
				testutil.Assert(t, after != nil && after.UID != before.UID && after.DeletionTimestamp == nil,
					"the mirror pod after its loss: %+v", after)
			})
		})
	}
}

// TestLossBetweenLists: a mirror pod that was created and deleted between two lists is created again.
func TestLossBetweenLists(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mirrors.SetStaticPods([]*v1.Pod{static("a", "1")})
		synctest.Wait()
		b.server.Remove("ns", "a")
		time.Sleep(61 * time.Second)
		b.wantMirror("1")
	})
}

// TestMirrorFromBefore: an earlier process's mirror pod is kept, whether it was listed or not. A mirror pod of an older
// manifest is replaced.
func TestMirrorFromBefore(t *testing.T) {
	for _, hash := range []string{"1", "old"} {
		for _, seen := range []bool{true, false} {
			inBubble(t, func(b *bench) {
				mirror := static("a", hash)
				mirror.UID, mirror.Annotations[model.AnnotationConfigMirror] = "", hash
				kept := b.server.Put(mirror)
				if seen {
					b.mirrors.SetMirrorPods([]*v1.Pod{kept})
				}
				synctest.Wait()
				b.wantCalls() // no source of static pods has listed its pods
				b.want(static("a", "1"))
				got := b.wantMirror("1")
				testutil.Assert(t, (got.UID == kept.UID) == (hash == "1"), "hash %s, seen %v: %+v", hash, seen, got)
				testutil.Assert(t, b.problems == nil, "problems %q", b.problems)
			})
		}
	}
}

func TestOrphanedMirrorIsRemoved(t *testing.T) {
	inBubble(t, func(b *bench) {
		mirror := static("a", "1")
		mirror.Annotations[model.AnnotationConfigMirror] = "1"
		kept := b.server.Put(mirror)
		plain := b.server.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plain", Namespace: "ns"}})
		b.mirrors.SetMirrorPods([]*v1.Pod{kept, plain})
		synctest.Wait()
		b.wantMirror("1")
		b.mirrors.SetStaticPods([]*v1.Pod{plain})
		b.show()
		b.wantMirror("1") // a source that has not listed its pods yet may have the static pod
		b.mirrors.SetSourcesReady()
		b.show()
		b.wantMirror("")
		testutil.Assert(t, b.server.Pod("ns", "plain") != nil, "a pod that is not a mirror was removed")
	})
}

// TestDeletionSparesTheNext: a deletion spares another pod that has taken the name of the observed mirror pod.
func TestDeletionSparesTheNext(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.want(static("a", "1"))
		stale := b.server.Pod("ns", "a")
		b.server.Remove("ns", "a")
		next := b.server.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}})
		testutil.Check(t, b.mirrors.delete(b.Context(), stale))
		got := b.server.Pod("ns", "a")
		testutil.Assert(t, got != nil && got.UID == next.UID, "the server has %+v", got)
	})
}

func TestNameOfAnotherPod(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.server.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}})
		err := b.mirrors.ensure(b.Context(), static("a", "1"), nil)
		testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "metadata.name"),
			"%v", err)
		b.wantMirror("")
	})
}

func TestNodeIsNotRegisteredYet(t *testing.T) {
	inBubble(t, func(b *bench) {
		registered := b.node.Load()
		for _, node := range []*v1.Node{nil, {},
			{ObjectMeta: metav1.ObjectMeta{UID: "n", DeletionTimestamp: &metav1.Time{}}}} {
			b.node.Store(node)
			err := b.mirrors.ensure(b.Context(), static("a", "1"), nil)
			testutil.Assert(t, errdefs.IsFailedPrecondition(err), "%+v: %v", node, err)
		}
		b.want(static("a", "1"))
		time.Sleep(3 * time.Second)
		b.node.Store(registered)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		b.wantMirror("1")
		testutil.Assert(t, len(b.problems) == 1 && strings.HasPrefix(b.problems[0], "a_ns: "),
			"problems %q", b.problems)
	})
}

func TestServerAway(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.server.SetAway(true)
		b.want(static("a", "1"))
		time.Sleep(time.Minute)
		b.want(static("a", "2"))
		b.server.SetAway(false)
		time.Sleep(31 * time.Second)
		b.wantMirror("2")
		b.server.SetFail(func(string) error { return errors.New("not now") })
		b.show()
		b.want()
		time.Sleep(time.Minute)
		b.server.SetFail(nil)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		b.wantMirror("")
		testutil.Assert(t, len(b.problems) == 2, "problems %q", b.problems)
	})
}
