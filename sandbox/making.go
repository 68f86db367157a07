package sandbox

import "sync"

// making are the pods that are being set up, of which something may be there before their record is. The zero value is
// none.
type making struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (m *making) begin(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil {
		m.ids = map[string]bool{}
	}
	m.ids[id] = true
}

// end is told that a set-up is over: the record is there, or nothing of the pod.
func (m *making) end(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ids, id)
}

func (m *making) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[id]
}
