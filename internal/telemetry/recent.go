package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// maxSlow is the number of slow calls that are kept.
const maxSlow = 16

// A call is slow if it takes at least this long, unless it is in unhurried.
const (
	slowRequest   = 5 * time.Second
	slowEngine    = 2 * time.Second
	slowOperation = 5 * time.Second
)

// unhurried has calls that last as long as the operation that they wait for. It is read-only.
var unhurried = map[string]bool{
	"ExecSync": true, "PullImage": true, "StopContainer": true, "StopPodSandbox": true, "GetContainerEvents": true,
	"CheckpointContainer": true, "CheckpointPod": true, "RestorePod": true,
	"stop container": true, "pull image": true, "load image": true, "save image": true, "checkpoint container": true,
	"restore container": true,
}

// recent keeps the facts that the operator of a misbehaving node needs first: slow calls, the lag of events, and the
// last fault of CNI plugins. All methods are safe for concurrent use and never wait.
type recent struct {
	mu   sync.Mutex
	slow []SlowCall
	lag  time.Duration
	last time.Time
	cni  CNIFault
}

// SlowCall is a call that took long.
type SlowCall struct {
	// Kind is "CRI", "engine" or "CNI". Call names the RPC, the engine call or the CNI operation.
	Kind  string        `json:"kind"`
	Call  string        `json:"call"`
	Ended time.Time     `json:"ended"`
	Took  time.Duration `json:"took"`
}

// CNIFault is the last failed operation of CNI plugins, the zero value without one.
type CNIFault struct {
	At        time.Time `json:"at,omitzero"`
	Operation string    `json:"operation,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Happened is the information that recent keeps.
type Happened struct {
	// EventLag is the lag of the engine's last event, and LastEvent its time. Both are zero before the first one.
	EventLag  time.Duration
	LastEvent time.Time
	CNI       CNIFault
	// Slow are the last slow calls, the newest first.
	Slow []SlowCall
}

// Happened returns the slow calls, the lag of events and the last CNI fault.
func (m *Metrics) Happened() Happened { return m.recent.happened() }

func (r *recent) happened() Happened {
	r.mu.Lock()
	defer r.mu.Unlock()
	slow := slices.Clone(r.slow)
	slices.Reverse(slow)
	return Happened{EventLag: r.lag, LastEvent: r.last, CNI: r.cni, Slow: slow}
}

func (r *recent) event(lag time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lag, r.last = max(lag, 0), time.Now()
}

func (r *recent) request(method string, code codes.Code, took time.Duration) {
	if code != codes.Canceled { // the client ended a stream
		r.note("CRI", method, took, slowRequest)
	}
}

// note keeps a call if it was slow.
func (r *recent) note(kind, call string, took, limit time.Duration) {
	if took < limit || unhurried[call] {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slow) == maxSlow {
		r.slow = slices.Delete(r.slow, 0, 1)
	}
	r.slow = append(r.slow, SlowCall{Kind: kind, Call: call, Ended: time.Now(), Took: took})
}

// noteFault keeps a failed operation of CNI plugins, unless its caller cancelled it.
func (r *recent) noteFault(operation string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cni = CNIFault{At: time.Now(), Operation: operation, Error: err.Error()}
}
