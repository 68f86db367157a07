package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// An error answer is counted. A broken pod is counted only if the faults end containers. Any other failure of a step
// fails the test.
func TestFailuresWhileFaultsAreMade(t *testing.T) {
	answer := grpcstatus.Error(codes.Unavailable, "the engine is away")
	dead := broken{errors.New("the pod's address does not answer")}
	for name, test := range map[string]struct {
		err         error
		ends        bool
		broke       int
		wrong       bool
		unavailable int
	}{
		"an error answer":                        {err: answer, unavailable: 1},
		"an error answer with its context":       {err: fmt.Errorf("RunPodSandbox: %w", answer), unavailable: 1},
		"a broken pod":                           {err: dead, wrong: true},
		"a broken pod where containers end":      {err: errors.Join(nil, dead), ends: true, broke: 1},
		"a broken pod that could not be stopped": {err: errors.Join(dead, answer), ends: true, unavailable: 1},
		"another failure where containers end":   {err: os.ErrPermission, ends: true, wrong: true},
	} {
		c := &churned{codes: map[codes.Code]int{}, ends: test.ends}
		c.failed(test.err)
		testutil.Assert(t, c.broke == test.broke && (c.wrong != nil) == test.wrong &&
			c.codes[codes.Unavailable] == test.unavailable,
			"%s: broke %d, wrong %v, answers%s", name, c.broke, c.wrong, countsOf(c.codes))
	}
}

// hanging is a connection on which each request ends at its deadline.
type hanging struct{ grpc.ClientConnInterface }

func (hanging) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return grpcstatus.Error(codes.DeadlineExceeded, "context deadline exceeded")
}

// A step that stays stuck fails with its last error. A deadline names its request, and the message also has the error
// before it.
func TestErrorOfAStuckStep(t *testing.T) {
	refused := errors.New("port 18000 is taken")
	hung := namedConn{hanging{}}.Invoke(t.Context(), "/runtime.v1.RuntimeService/StopPodSandbox", nil, nil)
	const late = "not within 1s: StopPodSandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
	for name, test := range map[string]struct {
		tries []error // the last one is repeated
		want  string
	}{
		"it succeeds":                    {[]error{refused, nil}, ""},
		"the same error":                 {[]error{refused}, "not within 1s: port 18000 is taken"},
		"another error":                  {[]error{os.ErrExist, refused}, "not within 1s: port 18000 is taken"},
		"a deadline":                     {[]error{hung}, late},
		"a deadline after another error": {[]error{refused, hung}, late + "; before it: port 18000 is taken"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tried := 0
			err := inTime(t.Context(), time.Second, func(context.Context) error {
				tried++
				return test.tries[min(tried, len(test.tries))-1]
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			testutil.Equal(t, got, test.want, "%s", name)
		})
	}
}

// A pod or container in an earlier answer must still exist, and run if it ran, unless a request has ended it.
func TestLostAfterAnAnswer(t *testing.T) {
	ran := answered{pod: "p", container: "c", runs: true}
	created := answered{pod: "p", container: "c"}
	in := func(id, state string) []*runtimeapi.Container {
		number := runtimeapi.ContainerState_value["CONTAINER_"+state]
		return []*runtimeapi.Container{{Id: id, State: runtimeapi.ContainerState(number)}}
	}
	for name, test := range map[string]struct {
		was        answered
		ends       string
		notReady   bool
		containers []*runtimeapi.Container
		lost       bool
	}{
		"runs":                    {was: ran, containers: in("c", "RUNNING")},
		"ran, and has ended":      {was: ran, containers: in("c", "EXITED"), lost: true},
		"ran, and is unknown":     {was: ran, containers: in("c", "UNKNOWN"), lost: true},
		"created":                 {was: created, containers: in("c", "CREATED")},
		"created, and runs":       {was: created, containers: in("c", "RUNNING")},
		"missing":                 {was: created, lost: true},
		"another container":       {was: ran, containers: in("d", "RUNNING"), lost: true},
		"ended by the request":    {was: ran, ends: "container"},
		"its pod is not ready":    {was: answered{pod: "p"}, notReady: true, lost: true},
		"its pod has been ended":  {was: ran, ends: "pod", notReady: true},
		"there was no answer yet": {notReady: true},
	} {
		sandboxes := []*runtimeapi.PodSandbox{{Id: "p", State: runtimeapi.PodSandboxState_SANDBOX_READY}}
		if test.notReady {
			sandboxes[0].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
		err := test.was.missing(scenario{ends: test.ends}, sandboxes, test.containers)
		testutil.Assert(t, (err != nil) == test.lost, "%s: %v", name, err)
	}
}
