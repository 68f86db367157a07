package node

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLease(t *testing.T) {
	m := fakeMachine(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{}
		r, end := start(t, s, m, Options{})
		defer end()
		<-r.Registered()
		synctest.Wait()
		first := s.currentLease()
		if first == nil {
			t.Fatal("there is no lease")
		}
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "here", UID: s.currentNode().UID}
		if *first.Spec.HolderIdentity != "here" || *first.Spec.LeaseDurationSeconds != 40 || first.Namespace != "kube-node-lease" ||
			len(first.OwnerReferences) != 1 || first.OwnerReferences[0] != owner {
			t.Errorf("lease %+v", first)
		}
		time.Sleep(35 * time.Second)
		if got := s.currentLease().Spec.RenewTime.Sub(first.Spec.RenewTime.Time); got != 30*time.Second {
			t.Errorf("after 35 seconds the lease is %v newer, want 30s", got)
		}
		if gets, puts := len(s.asked("GET", "/leases/here")), len(s.asked("PUT", "/leases/here")); gets != 1 || puts != 3 {
			t.Errorf("%d GETs and %d PUTs, want 1 and 3", gets, puts)
		}

		s.change(func() { s.lease = nil })
		time.Sleep(10 * time.Second)
		if s.currentLease() == nil || s.currentLease().OwnerReferences[0] != owner {
			t.Error("a lease that was deleted is not made again")
		}

		// Somebody else writes into it.
		s.change(func() {
			s.lease = s.lease.DeepCopy()
			s.lease.ResourceVersion, s.lease.Annotations, s.lease.OwnerReferences = "other", map[string]string{"a": "b"}, nil
		})
		time.Sleep(10 * time.Second)
		if s.currentLease().Annotations["a"] != "b" || len(s.currentLease().OwnerReferences) != 1 || time.Since(s.currentLease().Spec.RenewTime.Time) > 10*time.Second {
			t.Errorf("a lease that another changed became %+v", s.currentLease())
		}
	})
}

// TestLeaseServerAway: renewals go on as soon as the server is back, whether it refused or was silent.
func TestLeaseServerAway(t *testing.T) {
	m := fakeMachine(t, nil)
	for _, how := range []string{"refuses", "silent"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &apiServer{}
				r, end := start(t, s, m, Options{})
				defer end()
				<-r.Registered()
				time.Sleep(12 * time.Second)
				s.change(func() { s.down, s.hang = how == "refuses", how == "silent" })
				time.Sleep(time.Minute)
				if since := time.Since(s.currentLease().Spec.RenewTime.Time); since < time.Minute {
					t.Fatalf("the lease was renewed %v ago", since)
				}
				s.change(func() { s.down, s.hang = false, false })
				// A request that is under way when the server comes back may have to run into its time limit first.
				time.Sleep(10*time.Second + lastPause)
				if since := time.Since(s.currentLease().Spec.RenewTime.Time); since > 10*time.Second+lastPause {
					t.Errorf("17 seconds after the server came back the lease is %v old", since)
				}
			})
		})
	}
}
