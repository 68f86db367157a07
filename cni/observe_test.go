package cni

import (
	"context"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

type spanKey struct{}

func TestOperationsAreObserved(t *testing.T) {
	s := newSandbox(t)
	s.plugin("fake")
	s.plugin("ports")
	s.configure("net.conflist", `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"fake"},{"type":"ports"}]}`)
	var over []string
	s.options.Observe = func(ctx context.Context, operation string) (context.Context, func(error)) {
		return context.WithValue(ctx, spanKey{}, operation), func(err error) {
			if err != nil {
				operation += " failed"
			}
			over = append(over, operation)
		}
	}
	n := s.network()
	ctx, pod := context.Background(), testPod("p1")
	check := func(want ...string) {
		t.Helper()
		testutil.Assert(t, slices.Equal(over, want), "observed %q, want %q", over, want)
		over = nil
	}
	must(t, n.Status(ctx))
	must(t, n.Status(ctx))
	check("STATUS") // the second call gets the cached answer
	_, err := n.Add(ctx, pod)
	must(t, err)
	must(t, n.Del(ctx, pod, ""))
	check("ADD", "DEL")
	s.script("ports.ADD", "exit 1")
	_, err = n.Add(ctx, pod)
	testutil.Require(t, err != nil, "ADD works without a working plugin")
	check("ADD failed") // the roll-back is a part of ADD
}
