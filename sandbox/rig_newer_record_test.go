package sandbox_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A server that finds the record of a newer program shows the pod, keeps its address, and says what to do.
func TestServerLeavesThePodOfANewerProgramAlone(t *testing.T) {
	for name, mode := range map[string]runtimeapi.NamespaceMode{
		"with a sandbox container": runtimeapi.NamespaceMode_POD,
		"as a kubelet's":           runtimeapi.NamespaceMode_CONTAINER,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pid = mode
			id := r.run("web", 0)
			address := r.status(id).GetNetwork().GetIp()
			file := filepath.Join(r.server.RootDir, "pods", id+".json")
			r.must(r.server.Stop(t.Context()))
			older, err := os.ReadFile(file)
			r.must(err)
			newer := regexp.MustCompile(`"schemaVersion": \d+`).ReplaceAll(older, []byte(`"schemaVersion": 1000`))
			r.must(os.WriteFile(file, newer, 0o600))

			r.must(r.server.Start(t.Context()))
			r.wantNotReady(id)
			pods := r.pods()
			testutil.Assert(t, slices.Equal(pods, []string{id}), "the pods are %v, want %s", pods, id)
			_, stopErr := r.runtime().StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			_, removeErr := r.runtime().RemovePodSandbox(t.Context(),
				&runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
			for call, err := range map[string]error{"StopPodSandbox": stopErr, "RemovePodSandbox": removeErr} {
				testutil.Assert(t, status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), file),
					"%s returned %v, want FailedPrecondition that names %s", call, err, file)
			}
			other := r.run("other", 0)
			if got := r.status(other).GetNetwork().GetIp(); got == address || !r.answers(address) {
				t.Errorf("the other pod has the address %s, the pod left alone had %s and answers: %v", got, address,
					r.answers(address))
			}
			left := r.leases()
			testutil.Assert(t, len(left) == 2 && slices.Contains(left, address),
				"the addresses given out are %v, want two with %s", left, address)
			testutil.Holds(t, file, string(newer), "the record was changed")

			r.must(r.server.Stop(t.Context()))
			r.must(os.WriteFile(file, older, 0o600))
			r.must(r.server.Start(t.Context()))
			r.wantReady(id)
			r.end(id, other)
			r.wantNothing(id, other)
		})
	}
}
