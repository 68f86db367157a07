package kubelet

import (
	"fmt"
	"sync/atomic"
	"time"
)

// loopMonitor says whether the sync loop makes progress (syncLoopMonitor of pkg/kubelet/kubelet.go). The zero value is
// for a loop that has not begun. It is safe for concurrent use.
type loopMonitor struct {
	entered atomic.Pointer[time.Time]
}

// minLoopLimit is the shortest limit of a turn of the loop, as in the kubelet.
const minLoopLimit = 5 * time.Minute

// enter is called when a turn of the loop begins.
func (m *loopMonitor) enter() {
	now := time.Now()
	m.entered.Store(&now)
}

// err returns an error if a turn of the loop takes longer than minLoopLimit and longer than two resyncs.
func (m *loopMonitor) err(resync time.Duration) error {
	entered := m.entered.Load()
	if entered == nil {
		return nil
	}
	if took := time.Since(*entered); took > max(2*resync, minLoopLimit) {
		return fmt.Errorf("the sync loop has made no progress for %v", took.Round(time.Second))
	}
	return nil
}
