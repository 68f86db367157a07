package eviction

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// node is what a manager is told, and what it did.
type node struct {
	pods    []*v1.Pod
	stats   map[types.UID]podstats.Pod
	err     error
	over    map[types.UID]bool
	evicted []string
	events  *events.Recorder
}

func (n *node) options() Options {
	n.events = events.New("here")
	return Options{
		Pods:  func() []*v1.Pod { return n.pods },
		Stats: func(context.Context, []*v1.Pod) (map[types.UID]podstats.Pod, error) { return n.stats, n.err },
		Evict: func(pod *v1.Pod, why model.Failure) bool {
			if n.over[pod.UID] {
				return false
			}
			n.evicted = append(n.evicted, string(pod.UID)+": "+why.Reason+": "+why.Message)
			n.pods = slices.DeleteFunc(slices.Clone(n.pods), func(p *v1.Pod) bool { return p.UID == pod.UID })
			return true
		},
		Events: n.events,
	}
}

// named is a pod with one container and a volume of 1 MiB.
func named(uid string) *v1.Pod {
	pod := withEmptyDir(modeltest.Pod(v1.RestartPolicyAlways, "app:a"), "v", "1Mi")
	pod.UID, pod.Name = types.UID(uid), uid
	return pod
}

// TestLimitsInForce: all pods over a limit are evicted in one turn, but no critical one and none that is over.
func TestLimitsInForce(t *testing.T) {
	static, critical := named("static"), named("critical")
	static.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	critical.Spec.Priority = new(int32(2_000_000_000))
	n := &node{
		pods: []*v1.Pod{named("big"), named("small"), static, critical, named("ended"), named("huge")},
		err:  errors.New("the runtime is down"), over: map[types.UID]bool{"ended": true}, stats: map[types.UID]podstats.Pod{},
	}
	for _, pod := range n.pods {
		n.stats[pod.UID] = podstats.Pod{Volumes: map[string]podstats.Disk{"v": {Bytes: 2 << 20}}}
	}
	n.stats["small"] = podstats.Pod{Volumes: map[string]podstats.Disk{"v": {Bytes: 1 << 20}}}
	m := New(n.options())
	m.synchronize(t.Context())
	const message = `Evicted: Usage of EmptyDir volume "v" exceeds the limit "1Mi".`
	if want := []string{"big: " + message, "huge: " + message}; !slices.Equal(n.evicted, want) {
		t.Errorf("evicted %q, want %q", n.evicted, want)
	}
	list := n.events.List()
	if len(list) != 2 || list[0].InvolvedObject.Name != "big" || list[0].Reason != "Evicted" || list[0].Type != v1.EventTypeWarning {
		t.Errorf("events %+v", list)
	}
	if len(m.spared) != 2 {
		t.Errorf("spared %v", m.spared)
	}
	n.pods = nil
	if m.synchronize(t.Context()); len(m.spared) != 0 {
		t.Errorf("pods that are gone are kept: %v", m.spared)
	}
}

// TestRun looks again and again until its context ends.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*interval+interval/2)
		defer cancel()
		n := &node{}
		opts, turns := n.options(), 0
		opts.Pods = func() []*v1.Pod { turns++; return nil }
		if err := New(opts).Run(ctx); err != nil || turns != 3 {
			t.Errorf("%d turns: %v", turns, err)
		}
	})
}
