package node

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/apitest"
)

func TestLease(t *testing.T) {
	withNode(t, Options{}, func(t *testing.T, s *apitest.Server, _ *Reporter) {
		synctest.Wait()
		first := currentLease(s)
		testutil.Require(t, first != nil, "there is no lease")
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "here", UID: currentNode(s).UID}
		testutil.Assert(t, *first.Spec.HolderIdentity == "here" && *first.Spec.LeaseDurationSeconds == 40 &&
			first.Namespace == "kube-node-lease" && len(first.OwnerReferences) == 1 &&
			first.OwnerReferences[0] == owner, "lease %+v", first)
		time.Sleep(35 * time.Second)
		got := currentLease(s).Spec.RenewTime.Sub(first.Spec.RenewTime.Time)
		testutil.Assert(t, got == 30*time.Second, "after 35 seconds the lease is %v newer, want 30s", got)
		gets, puts := len(s.Requests("GET", "/leases/here")), len(s.Requests("PUT", "/leases/here"))
		testutil.Assert(t, gets == 1 && puts == 3, "%d GETs and %d PUTs, want 1 and 3", gets, puts)

		s.Delete(blankLease())
		time.Sleep(10 * time.Second)
		testutil.Assert(t, currentLease(s) != nil && currentLease(s).OwnerReferences[0] == owner,
			"the deleted lease was not created again")

		// Another client changes the lease.
		theirs := currentLease(s)
		theirs.Annotations, theirs.OwnerReferences = map[string]string{"a": "b"}, nil
		s.Set(theirs)
		time.Sleep(10 * time.Second)
		testutil.Assert(t, currentLease(s).Annotations["a"] == "b" && len(currentLease(s).OwnerReferences) == 1 &&
			time.Since(currentLease(s).Spec.RenewTime.Time) <= 10*time.Second,
			"a lease that another client changed became %+v", currentLease(s))
	})
}

// TestLeaseServerAway: renewals go on as soon as the server is back, whether it refused or did not answer.
func TestLeaseServerAway(t *testing.T) {
	for _, how := range []string{"refuses", "silent"} {
		t.Run(how, func(t *testing.T) {
			withNode(t, Options{}, func(t *testing.T, s *apitest.Server, _ *Reporter) {
				time.Sleep(12 * time.Second)
				s.SetAway(how == "refuses")
				s.SetHang(how == "silent")
				time.Sleep(time.Minute)
				since := time.Since(currentLease(s).Spec.RenewTime.Time)
				testutil.Require(t, since >= time.Minute, "the lease was renewed %v ago", since)
				s.SetAway(false)
				s.SetHang(false)
				// A request that waits when the server comes back may have to reach its timeout first.
				time.Sleep(10*time.Second + lastPause)
				if since := time.Since(currentLease(s).Spec.RenewTime.Time); since > 10*time.Second+lastPause {
					t.Errorf("17 seconds after the server came back the lease is %v old", since)
				}
			})
		})
	}
}
