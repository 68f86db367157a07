package kubelet

import (
	"fmt"
	"sync/atomic"
	"time"
)

// loopMonitor says whether the sync loop goes on (syncLoopMonitor of pkg/kubelet/kubelet.go). The zero value is that of
// a loop that has not begun. It is safe for concurrent use.
type loopMonitor struct {
	entered atomic.Pointer[time.Time]
}

// minLoopLimit is how long a turn of the loop may take at least, as for the kubelet.
const minLoopLimit = 5 * time.Minute

// enter notes that a turn of the loop begins.
func (m *loopMonitor) enter() {
	now := time.Now()
	m.entered.Store(&now)
}

// err says that the loop hangs: a turn has taken longer than two resyncs and minLoopLimit.
func (m *loopMonitor) err(resync time.Duration) error {
	entered := m.entered.Load()
	if entered == nil {
		return nil
	}
	if took := time.Since(*entered); took > max(2*resync, minLoopLimit) {
		return fmt.Errorf("the sync loop has not gone on for %v", took.Round(time.Second))
	}
	return nil
}
