package housekeeping

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
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
