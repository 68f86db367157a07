package e2e

import (
	"context"
	"regexp"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A kubelet's probe can tell failures apart by their codes. A long output is cut, so that the answer fits into the
// kubelet's message limit.
func TestExecSyncAnswers(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	id := c.container(p, "shell", shellImage, "sleep", "1000")
	stopped := c.container(p, "stopped", shellImage, "sleep", "1000")
	c.run("stop", "--timeout", "0", stopped)
	client := runtimeapi.NewRuntimeServiceClient(c.server.Conn)
	sync := func(id string, seconds int64, command ...string) (*runtimeapi.ExecSyncResponse, error) {
		return client.ExecSync(t.Context(),
			&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds},
			grpc.MaxCallRecvMsgSize(16<<20))
	}
	for what, test := range map[string]struct {
		id      string
		seconds int64
		command []string
		want    codes.Code
	}{
		"an unknown container": {"feedbeef", 10, []string{"true"}, codes.NotFound},
		"a stopped container":  {stopped, 10, []string{"true"}, codes.FailedPrecondition},
		"no command":           {id, 10, nil, codes.InvalidArgument},
		"a negative time":      {id, -1, []string{"true"}, codes.InvalidArgument},
		"a time that is over":  {id, 1, []string{"sleep", "5000"}, codes.DeadlineExceeded},
	} {
		answer, err := sync(test.id, test.seconds, test.command...)
		testutil.Assert(t, status.Code(err) == test.want, "%s: %v, %v, want %v", what, answer, err, test.want)
	}
	for command, want := range map[string]struct {
		code int32
		text *regexp.Regexp
	}{
		"no-such-program": {127, noSuchProgram},
		"/etc":            {126, notAProgram},
	} {
		answer, err := sync(id, 10, command)
		testutil.Must(t, err)
		if code := answer.GetExitCode(); code != want.code && code != 126 ||
			!want.text.Match(answer.GetStdout()) {
			t.Errorf("%s: exit code %d, %q, want %d and %q", command, code, answer.GetStdout(), want.code, want.text)
		}
	}
	answer, err := sync(id, 60, "sh", "-c", "head -c 20000000 /dev/zero; exit 4")
	testutil.Must(t, err)
	same(t, "exit code behind 20 MB of output", answer.GetExitCode(), 4)
	size := len(answer.GetStdout())
	testutil.Assert(t, size >= 15<<20 && size <= 16<<20, "%d bytes of 20 MB are in the answer", size)

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	_, err = client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"sleep", "5001"}})
	testutil.Assert(t, status.Code(err) == codes.Canceled, "a call that its client gave up: %v", err)
	c.awaitNoProcess(id, "sleep 500")
}
