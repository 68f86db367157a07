package apiserver

import (
	"context"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/kubelet/apiserver/node"
	"github.com/criadapter/criadapter/test/apitest"
)

// TestRefreshNode: the labels of a deleted node stay known, and the labels before the registration are not.
func TestRefreshNode(t *testing.T) {
	s := apitest.New()
	core := s.Core()
	reporter, err := node.New(node.Options{
		Clients: &connect.Clients{Core: core, Coordination: s.Coordination(), Watch: core, Server: "http://server"},
		Name:    "here", IPs: func() []string { return []string{"192.0.2.1"} },
		Labels: map[string]string{"disk": "fast"},
	})
	testutil.Must(t, err)
	c := &Cluster{node: reporter, conn: &connection{}}
	_, known, err := c.RefreshNode(t.Context())
	testutil.Assert(t, !known && err != nil, "before the registration: known %v, %v", known, err)
	testutil.Background(t, func(ctx context.Context) error { return reporter.Run(ctx) })
	testutil.Receive(t, reporter.Registered(), "the node is not registered")
	s.Delete(c.Node())
	current, known, err := c.RefreshNode(t.Context())
	testutil.Assert(t, known && err != nil && current.Labels["disk"] == "fast", "after the deletion: known %v, %v, %v",
		known, current.Labels, err)
	testutil.Assert(t, c.registeredNode() == nil, "a deleted node owns objects")
}
