package kubelet

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/kubelet/cluster"
	"github.com/criadapter/criadapter/kubelet/config"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/mirror"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/node"
	"github.com/criadapter/criadapter/kubelet/objects"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/report"
	"github.com/criadapter/criadapter/kubelet/status"
)

// steps have nothing to do; a pod has ended when its phase says so, and one with the label slow never ends. They are a runtime without pods, too.
type steps struct{}

func (steps) Sync(_ context.Context, pod *v1.Pod, _ time.Time) (bool, time.Duration, error) {
	return model.Terminal(pod.Status.Phase), 0, nil
}

func (steps) Terminate(ctx context.Context, pod *v1.Pod, _ podworkers.Termination, _ time.Time) error {
	if pod.Labels["slow"] != "" {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (steps) Terminated(context.Context, *v1.Pod) error { return nil }

func (steps) PodStatus(_ context.Context, uid types.UID) (*model.PodStatus, error) {
	return &model.PodStatus{UID: uid, ObservedAt: time.Now()}, nil
}

// testKubelet is a node for two pods whose API server is away and has never been there.
func testKubelet(t *testing.T) *Kubelet {
	t.Helper()
	core, err := corev1.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubelet{
		opts: Options{NodeIPs: []string{"192.0.2.1"}}, events: events.New("here"), status: status.NewStore(), cache: pleg.NewCache(steps{}),
		pleg: pleg.New(pleg.Options{}), rejected: &rejections{pods: map[types.UID]*v1.Pod{}}, mux: config.NewMux(config.Options{}),
	}
	k.server = &apiServer{objects: objects.New(objects.Options{Core: core})}
	k.server.statuses = report.NewStatuses(report.StatusOptions{Pods: core, Store: k.status, Finished: k.finished})
	k.server.mirrors = mirror.New(mirror.Options{Pods: core, Node: k.registeredNode})
	k.node, err = node.New(node.Options{Name: "here", IPs: k.opts.NodeIPs, MaxPods: 2, Clients: &cluster.Clients{Core: core}})
	if err != nil {
		t.Fatal(err)
	}
	k.workers = podworkers.New(t.Context(), podworkers.Options{Steps: steps{}, Ended: k.ended})
	return k
}

// bound is a pod that the scheduler gave to the node, made so many seconds after the first.
func bound(name string, second int) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.Unix(int64(second), 0),
			Annotations: map[string]string{model.AnnotationConfigSource: model.SourceAPI},
		},
		Spec: v1.PodSpec{NodeName: "here", Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
	manifest.SetDefaults(pod)
	return pod
}

func (k *Kubelet) rejectedNames() []string {
	var names []string
	for _, pod := range k.rejected.list() {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// TestRoomGoesToWhatRan gives room to the pod that was taken before a restart, then to the oldest.
func TestRoomGoesToWhatRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKubelet(t)
		ran := bound("z-ran", 30)
		ran.Status.StartTime = new(metav1.Now())
		pods := []*v1.Pod{bound("a-newest", 20), bound("b-oldest", 10), ran}
		k.add(t.Context(), pods...)
		if got := k.rejectedNames(); !slices.Equal(got, []string{"a-newest"}) {
			t.Errorf("rejected %v", got)
		}
		rejected := k.status.Get("a-newest")
		if rejected == nil || rejected.Status.Phase != v1.PodFailed || rejected.Status.Reason != "OutOfpods" {
			t.Errorf("it is shown as %+v", rejected)
		}
	})
}

func (k *Kubelet) add(ctx context.Context, pods ...*v1.Pod) {
	k.handle(ctx, config.Update{Op: config.Add, Source: model.SourceAPI, Pods: pods})
}

// TestLabelsThatNobodyKnows believes the scheduler while the server never showed the node's labels; a static pod has none
// who chose this node for it.
func TestLabelsThatNobodyKnows(t *testing.T) {
	k := testKubelet(t)
	chosen, static := bound("chosen", 1), bound("static", 2)
	for _, pod := range []*v1.Pod{chosen, static} {
		pod.Spec.NodeSelector = map[string]string{"disk": "fast"}
	}
	static.Annotations[model.AnnotationConfigSource] = model.SourceFile
	k.add(t.Context(), chosen, static)
	if got := k.rejectedNames(); !slices.Equal(got, []string{"static"}) {
		t.Errorf("rejected %v", got)
	}
}

// TestRejectedPodThatRuns is ended as itself, and is not finished before.
func TestRejectedPodThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKubelet(t)
		pod := bound("ran", 1)
		pod.Spec.NodeName = "there"
		k.add(t.Context(), pod)
		k.endUnwanted(&cri.Pod{UID: "ran", Name: "ran", Namespace: "default"})
		if k.finished("ran") {
			t.Error("finished before its end")
		}
		synctest.Wait()
		known, ok := k.workers.Pods()["ran"]
		if !ok || known.State != podworkers.Finished || len(known.Pod.Spec.Containers) != 1 || !k.finished("ran") {
			t.Errorf("it became %+v", known)
		}
		k.endUnwanted(&cri.Pod{UID: "orphan", Name: "orphan", Namespace: "default"})
		synctest.Wait()
		if k.finished("orphan") || len(k.workers.Pods()) != 1 {
			t.Errorf("an orphan stays: %v", k.workers.Pods())
		}
	})
}

// TestObjectsOfEndedPods are not watched, even when somebody changes a label of such a pod.
func TestObjectsOfEndedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKubelet(t)
		running, ended := bound("running", 1), bound("ended", 2)
		ended.Status.Phase = v1.PodSucceeded
		for _, pod := range []*v1.Pod{running, ended} {
			pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: pod.Name}}
		}
		k.add(t.Context(), running, ended)
		synctest.Wait()
		changed := ended.DeepCopy()
		changed.Labels = map[string]string{"seen": "by-somebody"}
		k.handle(t.Context(), config.Update{Op: config.Change, Source: model.SourceAPI, Pods: []*v1.Pod{changed}})
		synctest.Wait()
		if got := k.server.objects.Watched(); got != 1 {
			t.Errorf("%d objects are watched", got)
		}
	})
}

// TestChangeThatIsNotHonoured tells of a field that came while the pod runs, and runs it on.
func TestChangeThatIsNotHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKubelet(t)
		pod := bound("web", 1)
		k.add(t.Context(), pod)
		debugged := pod.DeepCopy()
		debugged.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}}
		k.handle(t.Context(), config.Update{Op: config.Change, Source: model.SourceAPI, Pods: []*v1.Pod{debugged}})
		synctest.Wait()
		told := k.events.List()
		if len(told) != 1 || told[0].Reason != "UnsupportedField" || len(k.rejected.list()) != 0 || k.workers.Pods()["web"].State != podworkers.Syncing {
			t.Errorf("events %+v, pods %+v", told, k.workers.Pods())
		}
	})
}

// TestEditedStaticPodKeepsItsPort takes the new pod of a manifest while the old one has not ended, but no second pod beside
// it.
func TestEditedStaticPodKeepsItsPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKubelet(t)
		old := bound("web", 0)
		old.Annotations[model.AnnotationConfigSource], old.Labels = model.SourceFile, map[string]string{"slow": "yes"}
		old.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
		edited, other := old.DeepCopy(), old.DeepCopy()
		edited.UID, other.UID, other.Name = "edited", "other", "other"
		for _, update := range []config.Update{{Op: config.Add, Pods: []*v1.Pod{old}}, {Op: config.Remove, Pods: []*v1.Pod{old}},
			{Op: config.Add, Pods: []*v1.Pod{edited}}, {Op: config.Add, Pods: []*v1.Pod{other}}} {
			update.Source = model.SourceFile
			k.handle(t.Context(), update)
			synctest.Wait()
		}
		if got := k.rejectedNames(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("rejected %v", got)
		}
		if got := k.workers.Pods()["web"].State; got != podworkers.Terminating {
			t.Errorf("the old pod is %s", got)
		}
	})
}
