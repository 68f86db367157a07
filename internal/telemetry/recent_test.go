package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSlowCallsAreRemembered(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	m.RPC("ListContainers", codes.OK, slowRequest-1)
	m.RPC("PullImage", codes.OK, time.Hour)
	m.RPC("StreamContainers", codes.Canceled, time.Hour)
	if slow := m.Happened().Slow; len(slow) != 0 {
		t.Errorf("got %+v", slow)
	}
	for i := range 2 * maxSlow {
		m.RPC(fmt.Sprint(i), codes.OK, slowRequest)
	}
	slow := m.Happened().Slow
	testutil.Assert(t, len(slow) == maxSlow && slow[0].Call == fmt.Sprint(2*maxSlow-1) && slow[0].Kind == "CRI" &&
		slow[0].Took == slowRequest,
		"%d calls, the newest is %+v", len(slow), slow[0])
}

func TestLastCNIFault(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	run := func(operation string, err error) {
		_, end := m.CNIOperation(t.Context(), operation)
		end(err)
	}
	run("ADD", nil)
	run("ADD", fmt.Errorf("given up: %w", context.Canceled))
	fault := m.Happened().CNI
	testutil.Assert(t, fault.At.IsZero(), "got %+v", fault)
	run("DEL", errors.New("no route"))
	run("ADD", nil)
	if fault := m.Happened().CNI; fault.Operation != "DEL" || fault.Error != "no route" || fault.At.IsZero() {
		t.Errorf("got %+v", fault)
	}
}

func TestLastEvent(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	got := m.Happened()
	testutil.Assert(t, got.LastEvent.IsZero(), "got %+v", got)
	m.Event(3 * time.Millisecond)
	if got := m.Happened(); got.EventLag != 3*time.Millisecond || got.LastEvent.IsZero() {
		t.Errorf("got %+v", got)
	}
}
