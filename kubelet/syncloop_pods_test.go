package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/apiserver"
	"github.com/criadapter/criadapter/kubelet/cpumanager"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/devicemanager"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/userns"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// steps is a PodSyncer that does nothing. A pod has ended if its phase is terminal. The termination of a pod with the
// label slow never ends. steps is also a runtime without pods.
type steps struct{}

func (steps) SyncPod(_ context.Context, pod *v1.Pod) (bool, time.Duration, error) {
	return model.Terminal(pod.Status.Phase), 0, nil
}

func (steps) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, _ podworkers.Termination) error {
	if pod.Labels["slow"] != "" {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (steps) SyncTerminatedPod(context.Context, *v1.Pod) error { return nil }

func (steps) Forget(types.UID) {}

func (steps) PodStatus(_ context.Context, uid types.UID) (*model.PodStatus, error) {
	return &model.PodStatus{UID: uid, ObservedAt: time.Now()}, nil
}

// kubeconfig names an API server that never answers.
const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
	"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
	"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`

// testLoop is the loop of a node with room for two pods. Its API server never answers.
func testLoop(t *testing.T) *syncLoop {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	testutil.Must(t, os.WriteFile(file, []byte(kubeconfig), 0o600))
	l := &syncLoop{
		hostIPs: func() []string { return []string{"192.0.2.1"} }, events: events.New("here"),
		status: status.NewManager(), cache: pleg.NewCache(steps{}),
		pleg: pleg.New(pleg.Options{}), rejected: admission.NewRejections(),
		config: podconfig.New(podconfig.Options{}),
	}
	runtime := cri.New(nil, nil, "here")
	var err error
	l.cluster, err = apiserver.New(apiserver.Options{
		Kubeconfig: file, Static: podconfig.NewObjects(), Status: l.status, Events: l.events,
		Node:    apiserver.NodeOptions{Name: "here", IPs: l.hostIPs, MaxPods: 2},
		Runtime: runtime, State: cri.NewState(runtime), PLEGErr: func() error { return nil },
	})
	testutil.Must(t, err)
	l.allocation, err = allocation.Open(filepath.Join(t.TempDir(), "allocated"))
	testutil.Must(t, err)
	l.userIDs, err = userns.Open(filepath.Join(t.TempDir(), "ids"))
	testutil.Must(t, err)
	l.devices, err = devicemanager.Open(devicemanager.Options{RootDir: t.TempDir()})
	testutil.Must(t, err)
	l.cpus, err = cpumanager.Open(cpumanager.Options{RootDir: t.TempDir()})
	testutil.Must(t, err)
	l.workers = podworkers.New(t.Context(), podworkers.Options{PodSyncer: steps{}, Ended: l.cluster.PodFinished})
	l.cleaner = housekeeping.NewCleaner(
		housekeeping.CleanerOptions{PLEG: l.pleg, Cache: l.cache, Workers: l.workers, Rejections: l.rejected})
	l.admitOn(l.cluster, l.workers.Active)
	return l
}

// admitOn makes the admitter of a node with active pods.
func (l *syncLoop) admitOn(node admission.Node, active func() []*v1.Pod) {
	l.admitter = admission.NewAdmitter(admission.Options{
		Node: node, Active: active, ShutdownErr: func() error { return nil }, Observed: l.pleg.Has,
		Rejections: l.rejected, Status: l.status, Events: l.events,
	})
}

// bound returns a pod that the scheduler bound to the node. second is its creation time in seconds since 1970.
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

func (l *syncLoop) rejectedNames() []string {
	var names []string
	for _, pod := range l.rejected.AppendTo(nil) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// TestRoomGoesToWhatRan: a pod that was admitted before a restart comes first, then the oldest.
func TestRoomGoesToWhatRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		ran := bound("z-ran", 30)
		ran.Status.StartTime = new(metav1.Now())
		pods := []*v1.Pod{bound("a-newest", 20), bound("b-oldest", 10), ran}
		l.send(t, podconfig.Add, pods...)
		got := l.rejectedNames()
		testutil.Assert(t, slices.Equal(got, []string{"a-newest"}), "rejected %v", got)
		rejected := l.status.Get("a-newest")
		testutil.Assert(t, rejected != nil && rejected.Status.Phase == v1.PodFailed &&
			rejected.Status.Reason == "OutOfpods", "the rejected pod is shown as %+v", rejected)
	})
}

// send passes an update of the API server to the loop.
func (l *syncLoop) send(t *testing.T, op podconfig.PodOperation, pods ...*v1.Pod) {
	l.handleUpdate(t.Context(), podconfig.PodUpdate{Op: op, Source: model.SourceAPI, Pods: pods})
}

// TestUnknownLabels: while the node's labels are unknown, the scheduler is trusted. Static pods have no scheduler.
func TestUnknownLabels(t *testing.T) {
	l := testLoop(t)
	chosen, static := bound("chosen", 1), bound("static", 2)
	for _, pod := range []*v1.Pod{chosen, static} {
		pod.Spec.NodeSelector = map[string]string{"disk": "fast"}
	}
	static.Annotations[model.AnnotationConfigSource] = model.SourceFile
	l.send(t, podconfig.Add, chosen, static)
	got := l.rejectedNames()
	testutil.Assert(t, slices.Equal(got, []string{"static"}), "rejected %v", got)
}

// TestObjectsOfEndedPods are not watched, even after a change of the pod's labels.
func TestObjectsOfEndedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		running, ended := bound("running", 1), bound("ended", 2)
		ended.Status.Phase = v1.PodSucceeded
		for _, pod := range []*v1.Pod{running, ended} {
			pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: pod.Name}}
		}
		l.send(t, podconfig.Add, running, ended)
		synctest.Wait()
		changed := ended.DeepCopy()
		changed.Labels = map[string]string{"seen": "yes"}
		l.send(t, podconfig.Update, changed)
		synctest.Wait()
		for pod, want := range map[*v1.Pod]bool{running: true, ended: false} {
			_, err := l.cluster.Objects().Secret(pod, pod.Name)
			watched := !errdefs.IsFailedPrecondition(err)
			testutil.Assert(t, err != nil && watched == want,
				"the secret of %s is watched: %t (%v)", pod.Name, watched, err)
		}
	})
}

// TestChangedObjectWakesItsUsers: a changed object wakes only the pods that name it.
func TestChangedObjectWakesItsUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counted := testLoop(t), &countedSteps{}
		l.workers = podworkers.New(t.Context(), podworkers.Options{PodSyncer: counted, Ended: l.cluster.PodFinished})
		user, other := bound("user", 1), bound("other", 2)
		user.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "named"}}
		l.send(t, podconfig.Add, user, other)
		for name, want := range map[string]int32{"named": 1, "unnamed": 0} {
			synctest.Wait()
			before := counted.synced.Load()
			l.wakeUsers(map[volumekinds.Object]bool{
				{Resource: volumekinds.Secrets,
					NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}: true,
			})
			synctest.Wait()
			testutil.Equal(t, counted.synced.Load()-before, want, "the secret %s", name)
		}
	})
}

// TestChangeThatIsNotHonoured: an unsupported field of a running pod causes an event, and the pod keeps running.
func TestChangeThatIsNotHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		pod := bound("web", 1)
		l.send(t, podconfig.Add, pod)
		debugged := pod.DeepCopy()
		debugged.Spec.EphemeralContainers = []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}}
		l.send(t, podconfig.Update, debugged)
		synctest.Wait()
		recorded := l.events.List()
		testutil.Assert(t, len(recorded) == 1 && recorded[0].Reason == "UnsupportedField" &&
			len(l.rejected.AppendTo(nil)) == 0 && l.workers.Pods()["web"].State == podworkers.Syncing,
			"events %+v, pods %+v", recorded, l.workers.Pods())
	})
}

// TestUnsupportedPodOfAController: a controller's pod stays Pending, because failing it would only trigger a
// replacement.
func TestUnsupportedPodOfAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		alone, owned := bound("alone", 1), bound("owned", 2)
		owned.OwnerReferences = []metav1.OwnerReference{
			{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
		for _, pod := range []*v1.Pod{alone, owned} {
			pod.Spec.Volumes = []v1.Volume{
				{Name: "v", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}}}
		}
		l.send(t, podconfig.Add, alone, owned)
		for uid, want := range map[types.UID]v1.PodPhase{"alone": v1.PodFailed, "owned": v1.PodPending} {
			shown := l.status.Get(uid)
			testutil.Require(t, shown != nil && shown.Status.Phase == want &&
				shown.Status.Reason == "UnsupportedField" && !l.workers.Has(uid), "%s is shown as %+v", uid, shown)
		}
		shown := l.status.Get("owned")
		again := l.admitter.Admit(t.Context(), shown)
		testutil.Assert(t, !again, "a restart would admit the pod")
		l.send(t, podconfig.Delete, owned)
		synctest.Wait()
		testutil.Assert(t, l.cleaner.Finished("owned"), "the deleted pod does not end")
	})
}

// TestTerminalPhaseOfTheServer: a terminal phase of the API server ends a running pod.
func TestTerminalPhaseOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		pod := bound("web", 1)
		l.send(t, podconfig.Add, pod)
		synctest.Wait()
		evicted := pod.DeepCopy()
		evicted.Status.Phase = v1.PodFailed
		l.send(t, podconfig.Reconcile, evicted)
		synctest.Wait()
		testutil.Equal(t, l.workers.Pods()["web"].State, podworkers.Finished, "the pod")
	})
}

// TestRestoredPodIsLookedAtAgain: a restored pod is synced when the server has listed it. Until then its status is not
// sent.
func TestRestoredPodIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counted := resizeLoop(t)
		restored := bound("web", 1)
		l.send(t, podconfig.Add, restored)
		synctest.Wait()
		testutil.Assert(t, l.status.Held(restored.UID), "the status of the restored pod is not held")
		listed := restored.DeepCopy()
		listed.ResourceVersion = "7"
		before := counted.synced.Load()
		l.send(t, podconfig.Reconcile, listed)
		synctest.Wait()
		testutil.Equal(t, counted.synced.Load(), before+1, "the pod was synced %d times, then", before)
	})
}

// TestEditedStaticPodKeepsItsPort: an edited static pod gets the host port of its old version. Another pod does not.
func TestEditedStaticPodKeepsItsPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		old := bound("web", 0)
		old.Annotations[model.AnnotationConfigSource], old.Labels = model.SourceFile, map[string]string{"slow": "yes"}
		old.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
		edited, other := old.DeepCopy(), old.DeepCopy()
		edited.UID, other.UID, other.Name = "edited", "other", "other"
		for _, update := range []podconfig.PodUpdate{{Op: podconfig.Add, Pods: []*v1.Pod{old}},
			{Op: podconfig.Remove, Pods: []*v1.Pod{old}},
			{Op: podconfig.Add, Pods: []*v1.Pod{edited}}, {Op: podconfig.Add, Pods: []*v1.Pod{other}}} {
			update.Source = model.SourceFile
			l.handleUpdate(t.Context(), update)
			synctest.Wait()
		}
		got := l.rejectedNames()
		testutil.Assert(t, slices.Equal(got, []string{"other"}), "rejected %v", got)
		testutil.Equal(t, l.workers.Pods()["web"].State, podworkers.Terminating, "the old pod")
	})
}

// TestRejectedPodThatComesBack: a rejected pod is checked again if its source names it again.
func TestRejectedPodThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoop(t)
		pod := bound("a", 0)
		l.admitter.Reject(pod, admission.Rejection{Reason: "OutOfpods"})
		l.dispatch(t.Context(), podconfig.Remove, pod)
		synctest.Wait()
		l.dispatch(t.Context(), podconfig.Add, pod)
		testutil.Assert(t, l.workers.Has(pod.UID), "the pod is still rejected")
	})
}

// TestRejectedStaticPod: free room does not bring a rejected static pod back, as in the kubelet. A restart does.
func TestRejectedStaticPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []*v1.Pod
		for _, name := range []string{"a", "b", "c"} {
			pod := bound(name, 0)
			pod.Annotations[model.AnnotationConfigSource] = model.SourceFile
			pods = append(pods, pod)
		}
		dispatch := func(l *syncLoop, op podconfig.PodOperation, pods ...*v1.Pod) {
			for _, pod := range pods {
				l.dispatch(t.Context(), op, pod)
			}
			synctest.Wait()
		}
		l := testLoop(t)
		dispatch(l, podconfig.Add, pods...)
		dispatch(l, podconfig.Remove, pods[0])
		dispatch(l, podconfig.Reconcile, pods[2])
		got := l.rejectedNames()
		testutil.Assert(t, slices.Equal(got, []string{"c"}) && !l.workers.Has("c"), "rejected %v", got)
		restarted := testLoop(t)
		dispatch(restarted, podconfig.Add, pods[1:]...)
		testutil.Assert(t, restarted.workers.Has("c"), "the pod is rejected after a restart")
	})
}
