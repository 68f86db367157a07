package housekeeping

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// nothing is a PodSyncer that does nothing.
type nothing struct{}

func (nothing) SyncPod(context.Context, *v1.Pod) (bool, time.Duration, error) {
	return false, 0, nil
}

func (nothing) SyncTerminatingPod(context.Context, *v1.Pod, podworkers.Termination) error {
	return nil
}

func (nothing) SyncTerminatedPod(context.Context, *v1.Pod) error { return nil }

func (nothing) Forget(types.UID) {}

// held ends pods when end is closed.
type held struct {
	nothing
	end chan struct{}
}

func (h held) SyncTerminatingPod(context.Context, *v1.Pod, podworkers.Termination) error {
	<-h.end
	return nil
}

// TestRejectedPodThatRuns: a running pod that the node rejects is ended. Finished is false until the pod's end.
func TestRejectedPodThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejected, end := admission.NewRejections(), make(chan struct{})
		workers := podworkers.New(t.Context(), podworkers.Options{PodSyncer: held{end: end}})
		c := NewCleaner(CleanerOptions{PLEG: pleg.New(pleg.Options{}), Workers: workers, Rejections: rejected})
		admitter := admission.NewAdmitter(admission.Options{
			Rejections: rejected, Status: status.NewManager(), Events: events.New("here"),
		})
		pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
		pod.UID = "ran"
		admitter.Reject(pod, admission.Rejection{Reason: "NodeName"})
		c.endUnwanted(&cri.Pod{UID: "ran", Name: "ran", Namespace: "default"})
		synctest.Wait()
		testutil.Assert(t, !c.Finished("ran"), "finished before its end")
		close(end)
		synctest.Wait()
		known, ok := workers.Pods()["ran"]
		testutil.Assert(t, ok && known.State == podworkers.Finished && len(known.Pod.Spec.Containers) == 1 &&
			c.Finished("ran"), "it became %+v", known)
		c.endUnwanted(&cri.Pod{UID: "orphan", Name: "orphan", Namespace: "default"})
		synctest.Wait()
		testutil.Assert(t, !c.Finished("orphan") && len(workers.Pods()) == 1, "an orphan stays: %v", workers.Pods())
		never := types.UID("never")
		testutil.Assert(t, !c.Finished(never), "an unknown pod has finished")
	})
}

// stops ends a pod by stopping a sandbox.
type stops struct {
	nothing
	runtime *apitest.FakeRuntimeService
	sandbox string
}

func (s stops) SyncTerminatingPod(ctx context.Context, _ *v1.Pod, _ podworkers.Termination) error {
	return s.runtime.StopPodSandbox(ctx, s.sandbox)
}

// TestNewVersionOfStaticAPIServer: the kubelet was restarted while the old version of the API server's static pod was
// ending. Its sandbox is still ready. The API server cannot list its pods before the new version runs.
func TestNewVersionOfStaticAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		fake := apitest.NewFakeRuntimeService()
		sandbox, err := fake.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "kube-apiserver-here", Namespace: "kube-system", Uid: "old"},
			Labels: map[string]string{model.LabelPodUID: "old", model.LabelPodName: "kube-apiserver-here",
				model.LabelPodNamespace: "kube-system", model.LabelOwner: "us"},
		}, "")
		testutil.Must(t, err)
		runtime := cri.New(fake, apitest.NewFakeImageService(), "us")
		cache := pleg.NewCache(runtime)
		generator := pleg.New(pleg.Options{Runtime: runtime, Cache: cache, NoEvents: true})
		go generator.Run(ctx)
		synctest.Wait()
		config := podconfig.New(podconfig.Options{Sources: []string{model.SourceFile, model.SourceAPI}})
		workers := podworkers.New(ctx, podworkers.Options{
			PodSyncer: stops{runtime: fake, sandbox: sandbox}, NameInUse: generator.NameInUse,
		})
		c := NewCleaner(CleanerOptions{
			PodConfig: config, PLEG: generator, Cache: cache, Workers: workers,
			Rejections: admission.NewRejections(), Status: status.NewManager(),
			Volumes: volumemanager.New(volumemanager.Options{RootDir: t.TempDir()}),
			Cgroups: cgroup.New(ctx, cgroup.Options{}),
		})
		pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
		pod.Name, pod.Namespace, pod.UID = "kube-apiserver-here", "kube-system", "new"
		pod.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
		testutil.Must(t, config.Set(ctx, model.SourceFile, []*v1.Pod{pod}))
		for _, added := range (<-config.Updates()).Pods {
			workers.Update(added)
		}
		synctest.Wait()
		testutil.Equal(t, workers.Pods()["new"].State, podworkers.Waiting, "before the old version has ended")
		for range 2 {
			c.Clean(ctx)
			time.Sleep(time.Minute)
			workers.WakeDue(time.Now())
			synctest.Wait()
		}
		state := workers.Pods()["new"].State
		cancel()
		workers.Wait()
		testutil.Equal(t, state, podworkers.Syncing, "the new version")
	})
}
