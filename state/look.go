package state

import (
	"time"

	"github.com/criadapter/criadapter/docker"
)

// look is what was asked of one engine container.
type look struct {
	asked    uint64    // the number of the last question
	at       time.Time // when it was asked
	answered uint64    // the number of the newest question whose answer was merged
}

// askAbout is ask for one container; answeredAbout ends it.
func (m *Mirror) askAbout(id string) question {
	q := m.ask()
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.looks[id]
	l.asked, l.at = q.number, time.Now().Round(0) // to be compared with the engine's clock
	m.looks[id] = l
	return q
}

func (m *Mirror) answeredAbout(id string, q question) {
	m.answered(q)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.knows(id) {
		delete(m.looks, id)
	}
}

// answeredSince reports whether a question about an id that was asked after the
// one of this number has been answered and merged.
func (m *Mirror) answeredSince(id string, number uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks[id].answered > number
}

// lookLater asks for a look at an id and never blocks. The answer to a question
// that is asked from now on does as well.
func (m *Mirror) lookLater(id string) {
	m.mu.Lock()
	since := m.asks
	m.mu.Unlock()
	m.refreshes.mark(id, since)
}

// lookAfter is lookLater for an event. It may arrive when whoever caused it has
// already asked; then that answer does. The engine's clock is ours, and one that
// was set back in between is noticed by a question that lies in the future.
func (m *Mirror) lookAfter(event docker.Event) {
	m.mu.Lock()
	since := m.asks
	if l, ok := m.looks[event.ID]; ok && event.Time.Before(l.at) && !l.at.After(time.Now().Round(0)) {
		since = l.asked - 1
	}
	m.mu.Unlock()
	m.refreshes.mark(event.ID, since)
}
