package kubelet

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/userns"
)

// announcing is a runtime that reports user namespaces only for its handler "mapped".
type announcing struct{ *apitest.FakeRuntimeService }

func (announcing) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{RuntimeHandlers: []*runtimeapi.RuntimeHandler{
		{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{}},
		{Name: "mapped", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: "old"},
	}}, nil
}

// TestHostUsers: pods of a handler with user namespaces get ids. Pods of other handlers get an error that names the
// field.
func TestHostUsers(t *testing.T) {
	ids, err := userns.Open(filepath.Join(t.TempDir(), "ids.json"))
	testutil.Must(t, err)
	h := hostUsers{
		ids: ids, runtime: cri.New(announcing{apitest.NewFakeRuntimeService()}, nil, "us"),
		handler: func(_ context.Context, class string) (string, error) {
			return strings.TrimPrefix(class, "class-"), nil
		},
	}
	for _, class := range []string{"", "class-old", "class-unknown"} {
		pod := bound("refused", 0)
		pod.Spec.RuntimeClassName = &class
		_, err := h.first(t.Context(), pod)
		testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), "spec.hostUsers"),
			"%q: %v", class, err)
	}
	_, found := ids.Find("refused")
	testutil.Assert(t, !found, "a refused pod has ids")
	var firsts []uint32
	for _, pod := range []*v1.Pod{bound("a", 0), bound("b", 0), bound("a", 0)} {
		pod.Spec.RuntimeClassName = new("class-mapped")
		id, err := h.first(t.Context(), pod)
		testutil.Must(t, err)
		firsts = append(firsts, id)
	}
	testutil.Assert(t, firsts[0] != firsts[1] && firsts[0] == firsts[2], "ids from %v", firsts)
}
