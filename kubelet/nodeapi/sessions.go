package nodeapi

import "sync"

// sessions counts the handlers that took over their connections from HTTP. It is safe for concurrent use.
type sessions struct {
	mu    sync.Mutex
	ended bool
	open  sync.WaitGroup
}

// begin counts a session and returns true. After end it returns false. Call done when the session ends.
func (s *sessions) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.open.Add(1)
	return true
}

func (s *sessions) done() { s.open.Done() }

// end refuses new sessions and waits for the open ones.
func (s *sessions) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.open.Wait()
}
