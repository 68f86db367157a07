package cri

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// answers is a runtime that implements only Status.
type answers struct {
	internalapi.RuntimeService
	began  time.Time
	asked  []time.Duration
	status func() (*runtimeapi.StatusResponse, error)
}

func (a *answers) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	a.asked = append(a.asked, time.Since(a.began))
	return a.status()
}

// conditions is an answer of Status. A condition with a reason is false.
func conditions(runtime, network string) *runtimeapi.StatusResponse {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: runtime == "", Reason: runtime},
		{Type: runtimeapi.NetworkReady, Status: network == "", Reason: network},
	}}}
}

// TestRuntimeState: the runtime and its network have errors of their own, and an error of Status counts for both.
func TestRuntimeState(t *testing.T) {
	for name, test := range map[string]struct {
		answer           *runtimeapi.StatusResponse
		err              error
		runtime, network string
	}{
		"ready":      {answer: conditions("", "")},
		"no network": {answer: conditions("", "NoPlugin"), network: "NetworkReady is false: NoPlugin"},
		"no engine":  {answer: conditions("EngineAway", ""), runtime: "RuntimeReady is false: EngineAway"},
		"no answer":  {err: errors.New("refused"), runtime: "refused", network: "refused"},
		"no conditions": {answer: &runtimeapi.StatusResponse{}, runtime: "does not report RuntimeReady",
			network: "does not report NetworkReady"},
		"nothing is ready": {answer: conditions("EngineAway", "NoPlugin"), runtime: "EngineAway", network: "NoPlugin"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answers{status: func() (*runtimeapi.StatusResponse, error) { return test.answer, test.err }}
			s := NewState(New(a, nil, "n"))
			testutil.Assert(t, s.Runtime() != nil && s.Network() != nil && s.Last() == nil,
				"it is ready before the first call of Status")
			_, err := s.ask(t.Context())
			for _, part := range []struct {
				got  error
				want string
			}{{s.Runtime(), test.runtime}, {s.Network(), test.network}} {
				if (part.got == nil) != (part.want == "") ||
					part.got != nil && !strings.Contains(part.got.Error(), part.want) {
					t.Errorf("got %v, want %q", part.got, part.want)
				}
			}
			ready := test.runtime == "" && test.network == ""
			testutil.Assert(t, (err == nil) == ready, "error of ask: %v, want ready %t", err, ready)
			testutil.Assert(t, s.Last() == test.answer, "the last answer is %v", s.Last())
		})
	}
}

// TestCallThatIsCutOff: a call that the end of Run cuts off does not change the readiness.
func TestCallThatIsCutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := &answers{status: func() (*runtimeapi.StatusResponse, error) { return conditions("", ""), nil }}
	s := NewState(New(a, nil, "n"))
	turns := 0
	s.Run(ctx, time.Millisecond, func() {
		turns++
		a.status = func() (*runtimeapi.StatusResponse, error) {
			cancel()
			return nil, ctx.Err()
		}
	})
	testutil.Assert(t, turns == 1 && s.Runtime() == nil && s.Network() == nil, "%d changes, the runtime: %v", turns,
		s.Runtime())
}

// jittered says whether got is want milliseconds, plus at most the jitter of all pauses.
func jittered(got, want time.Duration) bool {
	late := got - want*time.Millisecond
	return late >= 0 && late <= 150*time.Millisecond
}

// TestRuntimeIsAskedSoonerWhileItIsNotReady: Status is called each period. While Status fails, the pauses begin at 100
// ms and double. Changed is called once for each change.
func TestRuntimeIsAskedSoonerWhileItIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{began: time.Now()}
		away := func() bool { at := time.Since(a.began); return at >= 5*time.Second && at < 6*time.Second }
		a.status = func() (*runtimeapi.StatusResponse, error) {
			if away() {
				return nil, errors.New("refused")
			}
			return conditions("", ""), nil
		}
		var changed []time.Duration
		s := NewState(New(a, nil, "n"))
		ctx, cancel := context.WithTimeout(t.Context(), 17*time.Second)
		defer cancel()
		s.Run(ctx, 5*time.Second, func() { changed = append(changed, time.Since(a.began)) })
		want := []time.Duration{0, 5000, 5100, 5300, 5700, 6500, 11500, 16500}
		testutil.Assert(t, slices.EqualFunc(a.asked, want, jittered), "asked after %v, want %v", a.asked, want)
		want = []time.Duration{0, 5000, 6500}
		testutil.Assert(t, slices.EqualFunc(changed, want, jittered), "changed after %v, want %v", changed, want)
	})
}
