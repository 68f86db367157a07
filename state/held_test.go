package state

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// kernelRecord is the record of a pod without a sandbox container.
func kernelRecord(id, name string) checkpoint.Record {
	record := readyRecord(id, name)
	record.CreatedAt = time.Now()
	record.Namespaces = &checkpoint.Namespaces{Dir: "/run/pods/" + id}
	return record
}

// A pod without a sandbox container is read from its record, and counts as running while Options.Alive returns true.
func TestPodWithoutASandboxContainer(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var alive atomic.Bool
		alive.Store(true)
		n.cache = New(Options{Engine: n.engine, Records: n.records, Alive: func(r checkpoint.Record) (bool, error) {
			return r.SandboxID != "dead" && alive.Load(), nil
		}})
		n.records.save(kernelRecord("kernel", "web"))
		n.records.save(kernelRecord("dead", "old"))
		n.sync()
		n.wantPod("kernel", podReady)
		n.wantPod("dead", podNotReady)
		pod := n.pod("kernel")
		testutil.Assert(n, pod.Status.PID == 0 && pod.Status.Namespaces != nil && !pod.Status.StartedAt.IsZero() &&
			pod.Status.finishedAt.IsZero(), "the pod is %+v", pod.Status)
		time.Sleep(20 * time.Minute) // several relists
		n.wantPod("kernel", podReady)
		changes := n.cache.Subscribe()
		defer changes.Close()
		alive.Store(false)
		time.Sleep(6 * time.Minute)
		n.wantPod("kernel", podNotReady)
		change, err := changes.Next(n.Context())
		testutil.Assert(n, err == nil && change.ID == "kernel" && change.Type == Stopped,
			"received %+v, %v", change, err)
	})
}

// A pod whose namespaces or record cannot be read stays as it was. A pod that was wrongly marked as ended is READY
// again, unless it was stopped.
func TestPodThatCannotBeSeenStaysAsItWas(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var alive atomic.Bool
		var failure atomic.Pointer[error]
		n.cache = New(Options{Engine: n.engine, Records: n.records, Alive: func(checkpoint.Record) (bool, error) {
			if err := failure.Load(); err != nil {
				return false, *err
			}
			return alive.Load(), nil
		}})
		relist := func(isAlive bool, err error) {
			alive.Store(isAlive)
			if failure.Store(nil); err != nil {
				failure.Store(&err)
			}
			time.Sleep(6 * time.Minute)
		}
		unseen := errors.New("too many open files")
		failure.Store(&unseen)
		n.records.save(kernelRecord("web", "web"))
		n.sync()
		n.wantPod("web", podReady) // a failed look at the start ends no pod
		relist(false, unseen)
		n.wantPod("web", podReady)
		n.records.fail(errors.New("an input/output error"))
		relist(true, nil)
		n.wantPod("web", podReady)
		relist(false, nil)
		n.wantPod("web", podNotReady)
		n.records.fail(nil)
		relist(false, unseen)
		n.wantPod("web", podNotReady)
		changes := n.cache.Subscribe()
		defer changes.Close()
		relist(true, nil)
		n.wantPod("web", podReady)
		status := n.pod("web").Status
		testutil.Assert(n, status.finishedAt.IsZero(), "the pod is %+v", status)
		ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
		defer cancel()
		change, err := changes.Next(ctx)
		testutil.Assert(n, err == nil && change.ID == "web" && change.Type == Started, "received %+v, %v", change, err)
		n.cache.UpdatePod("web", func(s *PodStatus) { s.Stopping = true })
		n.cache.EndPod("web")
		relist(true, nil)
		n.wantPod("web", podNotReady)
		status = n.pod("web").Status
		testutil.Assert(n, !status.Running, "the stopped pod is %+v", status)
	})
}

// PutPod, EndPod and RemovePod send each change of a pod once.
func TestEventsOfAPodWithoutASandboxContainer(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		changes := n.cache.Subscribe()
		defer changes.Close()
		n.cache.PutPod(PodOf(n.Context(), kernelRecord("kernel", "web")))
		n.cache.EndPod("kernel")
		n.cache.EndPod("kernel")
		n.cache.RemovePod("kernel")
		var received []ChangeType
		for range 4 {
			change, err := changes.Next(n.Context())
			n.must(err)
			received = append(received, change.Type)
		}
		want := []ChangeType{Created, Started, Stopped, Deleted}
		testutil.Assert(n, slices.Equal(received, want), "received %v, want %v", received, want)
	})
}

// A pod without a record is shown until RemovePod.
func TestPodWhoseRecordIsLostIsShown(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		kept := kernelRecord("kept", "kept")
		n.records.save(kept)
		n.cache = New(Options{
			Engine: n.engine, Records: n.records,
			Alive:      func(checkpoint.Record) (bool, error) { return true, nil },
			Unrecorded: func() []checkpoint.Record { return []checkpoint.Record{kept, kernelRecord("lost", "web")} },
		})
		n.sync()
		n.wantPod("kept", podReady)
		n.wantPod("lost", podNotReady)
		time.Sleep(20 * time.Minute)
		n.wantPod("lost", podNotReady)
		n.cache.RemovePod("lost")
		time.Sleep(6 * time.Minute)
		n.wantUnknown("lost")
	})
}
