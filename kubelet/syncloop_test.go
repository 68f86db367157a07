package kubelet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
)

// milliseconds are whole ones, as a test writes them.
func milliseconds(durations ...int) []time.Duration {
	var all []time.Duration
	for _, d := range durations {
		all = append(all, time.Duration(d)*time.Millisecond)
	}
	return all
}

// TestLoopRestsWhileTheRuntimeIsNotReady looks 100 ms later, then after twice as long each time, up to 5 s.
func TestLoopRestsWhileTheRuntimeIsNotReady(t *testing.T) {
	logger := logrus.StandardLogger()
	level, hooks := logger.GetLevel(), logger.ReplaceHooks(logrus.LevelHooks{})
	hook := logtest.NewGlobal()
	logger.SetLevel(logrus.DebugLevel)
	defer func() {
		logger.SetLevel(level)
		logger.ReplaceHooks(hooks)
	}()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 17*time.Second)
		defer cancel()
		k := &Kubelet{
			opts:  Options{SyncTick: time.Second, Housekeeping: 2 * time.Second},
			ready: &runtimeState{runtimeErr: errors.New("it is away")},
		}
		k.syncLoop(ctx)
		if took := time.Since(began); took != 17*time.Second {
			t.Errorf("the loop ended after %v, want its context's 17s", took)
		}
		var looks []time.Duration
		for _, entry := range hook.AllEntries() {
			if strings.Contains(entry.Message, "not ready") {
				looks = append(looks, entry.Time.Sub(began))
			}
		}
		if want := milliseconds(0, 100, 300, 700, 1500, 3100, 6300, 11300, 16300); !slices.Equal(looks, want) {
			t.Errorf("it looked after %v, want %v", looks, want)
		}
	})
}

// answers is a runtime that is asked for its status alone.
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

// conditions is an answer; a condition with a reason is false.
func conditions(runtime, network string) *runtimeapi.StatusResponse {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: runtime == "", Reason: runtime},
		{Type: runtimeapi.NetworkReady, Status: network == "", Reason: network},
	}}}
}

// TestRuntimeState tells runtime and network apart, and an error from an answer.
func TestRuntimeState(t *testing.T) {
	for name, test := range map[string]struct {
		answer           *runtimeapi.StatusResponse
		err              error
		runtime, network string
	}{
		"ready":            {answer: conditions("", "")},
		"no network":       {answer: conditions("", "NoPlugin"), network: "NetworkReady is false: NoPlugin"},
		"no engine":        {answer: conditions("EngineAway", ""), runtime: "RuntimeReady is false: EngineAway"},
		"no answer":        {err: errors.New("refused"), runtime: "refused", network: "refused"},
		"nothing about it": {answer: &runtimeapi.StatusResponse{}, runtime: "does not report RuntimeReady", network: "does not report NetworkReady"},
		"nothing is ready": {answer: conditions("EngineAway", "NoPlugin"), runtime: "EngineAway", network: "NoPlugin"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answers{status: func() (*runtimeapi.StatusResponse, error) { return test.answer, test.err }}
			s := newRuntimeState(cri.New(a, nil, "n"), func() {})
			if s.Err() == nil || s.Last() != nil {
				t.Error("it is ready before it was asked")
			}
			err := s.ask(t.Context())
			for _, part := range []struct {
				got  error
				want string
			}{{s.Runtime(), test.runtime}, {s.Network(), test.network}} {
				if (part.got == nil) != (part.want == "") || part.got != nil && !strings.Contains(part.got.Error(), part.want) {
					t.Errorf("got %v, want %q", part.got, part.want)
				}
			}
			if ready := test.runtime == "" && test.network == ""; (err == nil) != ready || (s.Err() == nil) != ready {
				t.Errorf("as a whole: %v and %v, want ready %t", err, s.Err(), ready)
			}
			if s.Last() != test.answer {
				t.Errorf("the last answer is %v", s.Last())
			}
		})
	}
}

// TestRuntimeIsAskedSoonerWhileItIsNotReady asks each period, and from 100 ms on twice as rarely while something is
// wrong; a change is told once.
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
		s := newRuntimeState(cri.New(a, nil, "n"), func() { changed = append(changed, time.Since(a.began)) })
		ctx, cancel := context.WithTimeout(t.Context(), 17*time.Second)
		defer cancel()
		s.run(ctx, 5*time.Second)
		if want := milliseconds(0, 5000, 5100, 5300, 5700, 6500, 11500, 16500); !slices.Equal(a.asked, want) {
			t.Errorf("asked after %v, want %v", a.asked, want)
		}
		if want := milliseconds(0, 5000, 6500); !slices.Equal(changed, want) {
			t.Errorf("told after %v, want %v", changed, want)
		}
	})
}
