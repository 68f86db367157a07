package housekeeping

import (
	"context"
	"maps"
	"os"
	"slices"
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
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// killer records which pods are ended and forgotten, and removes their volumes once release is closed.
type killer struct {
	nothing
	killed, forgotten chan types.UID
	volumes           *volumemanager.Manager
	release           chan struct{}
}

func (k killer) Forget(uid types.UID) { k.forgotten <- uid }

func (k killer) SyncTerminatingPod(_ context.Context, pod *v1.Pod, _ podworkers.Termination) error {
	k.killed <- pod.UID
	return nil
}

func (k killer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod) error {
	<-k.release
	return k.volumes.Unmount(ctx, pod.UID)
}

// restarted is a node after a restart of the kubelet core. Its pods began before the restart, and have no workers.
type restarted struct {
	*Cleaner
	killer
	config  *podconfig.PodConfig
	runtime *apitest.FakeRuntimeService
}

// restart makes a node with running pods, and pods with only a directory.
func restart(t *testing.T, running, directories []types.UID) *restarted {
	t.Helper()
	root := t.TempDir()
	r := &restarted{
		killer: killer{killed: make(chan types.UID, 10), forgotten: make(chan types.UID, 10),
			release: make(chan struct{}),
			volumes: volumemanager.New(volumemanager.Options{RootDir: root})},
		config: podconfig.New(podconfig.Options{Sources: []string{model.SourceFile}}),
	}
	fake := apitest.NewFakeRuntimeService()
	r.runtime = fake
	for _, uid := range running {
		r.sandbox(t, uid, 0)
	}
	for _, uid := range directories {
		testutil.Must(t, os.MkdirAll(model.PodDirectory(root, uid), 0o700))
	}
	runtime := cri.New(fake, apitest.NewFakeImageService(), "us")
	cache := pleg.NewCache(runtime)
	generator := pleg.New(pleg.Options{Runtime: runtime, Cache: cache, NoEvents: true})
	go generator.Run(t.Context())
	synctest.Wait() // the first list is made
	r.Cleaner = NewCleaner(CleanerOptions{
		PodConfig: r.config, PLEG: generator, Cache: cache,
		Workers:    podworkers.New(t.Context(), podworkers.Options{PodSyncer: r.killer}),
		Rejections: admission.NewRejections(), Status: status.NewManager(),
		Volumes: r.volumes,
		Cgroups: cgroup.New(t.Context(), cgroup.Options{}),
	})
	t.Cleanup(r.opts.Workers.Wait)
	return r
}

// sandbox runs a sandbox of a pod, and returns its id.
func (r *restarted) sandbox(t *testing.T, uid types.UID, attempt uint32) string {
	t.Helper()
	name := string(uid)
	id, err := r.runtime.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name, Attempt: attempt},
		Labels: map[string]string{model.LabelPodUID: name, model.LabelPodName: name,
			model.LabelPodNamespace: "default", model.LabelOwner: "us"},
	}, "")
	testutil.Must(t, err)
	return id
}

// clean calls Clean, and compares which pods were killed and which still have a directory.
func (r *restarted) clean(t *testing.T, when string, killed, directories []types.UID) {
	t.Helper()
	r.Clean(t.Context())
	synctest.Wait()
	var ended []types.UID
	for len(r.killed) > 0 {
		ended = append(ended, <-r.killed)
	}
	left, err := r.opts.Volumes.Pods()
	testutil.Assert(t, err == nil && slices.Equal(ended, killed) && slices.Equal(left, directories),
		"%s: killed %v and left %v, want %v and %v: %v", when, ended, left, killed, directories, err)
}

// TestOlderSandboxIsEnded: an unwanted pod is ended if an older sandbox of it is ready, although its newest one is
// dead.
func TestOlderSandboxIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restart(t, []types.UID{"stray"}, nil)
		time.Sleep(time.Second)
		newest := r.sandbox(t, "stray", 1)
		testutil.Must(t, r.runtime.StopPodSandbox(t.Context(), newest))
		time.Sleep(2 * time.Second) // the next list
		close(r.release)
		testutil.Must(t, r.config.Set(t.Context(), model.SourceFile, nil))
		for !r.config.Settled() {
			<-r.config.Updates()
		}
		r.clean(t, "with the source", []types.UID{"stray"}, nil)
	})
}

// TestEndedRunIsForgotten: a pod lost its source just before a restart, and the runtime still has its dead sandbox.
// Clean forgets the pod, so that it can run again if its source names it again.
func TestEndedRunIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restart(t, nil, nil)
		testutil.Must(t, r.runtime.StopPodSandbox(t.Context(), r.sandbox(t, "ended", 0)))
		time.Sleep(2 * time.Second) // the next list
		r.Clean(t.Context())
		testutil.Equal(t, len(r.forgotten), 0, "forgotten pods before all sources have listed their pods")
		testutil.Must(t, r.config.Set(t.Context(), model.SourceFile, nil))
		for !r.config.Settled() {
			<-r.config.Updates()
		}
		r.clean(t, "with the source", nil, nil)
		testutil.Require(t, len(r.forgotten) == 1, "%d forgotten pods", len(r.forgotten))
		testutil.Equal(t, <-r.forgotten, "ended", "forgotten pod")
	})
}

// TestCleanAfterRestart: Clean does not touch a pod that a source has set and the sync loop has not handled yet. Right
// after a restart this is true of all running pods.
func TestCleanAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restart(t, []types.UID{"runs", "stray"}, []types.UID{"directory", "left"})
		wanted := map[types.UID]*v1.Pod{}
		for _, uid := range []types.UID{"runs", "directory"} {
			pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
			pod.Name, pod.UID = string(uid), uid
			pod.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
			wanted[uid] = pod
		}
		r.clean(t, "before the source", nil, []types.UID{"directory", "left"})
		testutil.Must(t, r.config.Set(t.Context(), model.SourceFile, slices.Collect(maps.Values(wanted))))
		r.clean(t, "before its pods are handled", nil, []types.UID{"directory", "left"})
		for _, pod := range (<-r.config.Updates()).Pods {
			r.opts.Workers.Update(pod)
		}
		r.clean(t, "while a removal hangs", []types.UID{"stray"}, []types.UID{"directory", "left"})
		close(r.release)
		synctest.Wait()
		left, err := r.volumes.Pods()
		testutil.Assert(t, err == nil && slices.Equal(left, []types.UID{"directory"}), "after that: left %v, %v", left,
			err)
	})
}
