package nodeapi

import "sync"

// sessions counts those that took their connections over from HTTP. It is safe for concurrent use.
type sessions struct {
	mu    sync.Mutex
	ended bool
	open  sync.WaitGroup
}

// begin counts one, unless the end has come; done must follow.
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

// end lets no more begin and waits for those that are open.
func (s *sessions) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.open.Wait()
}
