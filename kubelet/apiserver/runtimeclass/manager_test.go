package runtimeclass

import (
	"net/http"
	"strings"
	"testing"

	node "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/apitest"
)

// TestHandler: the last answer is used while the server is away. A removed class is forgotten.
func TestHandler(t *testing.T) {
	server := apitest.Start(t)
	client, err := nodev1.NewForConfig(&rest.Config{Host: server.URL()})
	testutil.Must(t, err)
	class := &node.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "kata"}
	server.Set(class)
	m := New(client)
	_, err = m.Handler(t.Context(), "none")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), `"none"`), "a class that does not exist: %v", err)
	want := func(when string) {
		t.Helper()
		got, err := m.Handler(t.Context(), "sandboxed")
		testutil.Assert(t, got == "kata" && err == nil, "%s: %q, %v", when, got, err)
	}
	want("there")
	server.SetFail(func(string) error { return http.ErrServerClosed })
	want("the server is away")
	server.SetFail(nil)
	server.Delete(class)
	got, err := m.Handler(t.Context(), "sandboxed")
	testutil.Assert(t, err != nil, "removed: %q", got)
}
