package streaming

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSessionsAreCounted(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, Options{Runtime: fakeRuntime{exec: func(_ context.Context, _ []string, streams Streams) (int, error) {
		<-release
		fmt.Fprint(streams.Stdout, "over")
		return 0, nil
	}}})
	counted := func(exec int) func() bool {
		return func() bool {
			return maps.Equal(s.Sessions(), map[string]int{kindExec: exec, kindAttach: 0, kindPortForward: 0})
		}
	}
	testutil.Until(t, "no session is counted", counted(0))
	asked := remotecommand.Options{Stdout: true}
	first := openSPDY(t, execURL(t, s, request(asked)), asked)
	second := openWebSocket(t, execURL(t, s, request(asked)), asked)
	testutil.Until(t, "two sessions are counted", counted(2))
	close(release)
	for _, c := range []*terminal{first, second} {
		got := c.finish()
		testutil.Assert(t, got.Status == "Success", "%+v", got)
	}
	testutil.Until(t, "no session is counted any more", counted(0))
}
