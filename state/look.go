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
func (c *Cache) askAbout(id string) question {
	q := c.ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.looks[id]
	l.asked, l.at = q.number, time.Now().Round(0) // to be compared with the engine's clock
	c.looks[id] = l
	return q
}

func (c *Cache) answeredAbout(id string, q question) {
	c.answered(q)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.knows(id) {
		delete(c.looks, id)
	}
}

// answeredSince reports whether a question about an id that was asked after the
// one of this number has been answered and merged.
func (c *Cache) answeredSince(id string, number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks[id].answered > number
}

// lookLater asks for a look at an id and never blocks. The answer to a question that is asked from now on does as well.
func (c *Cache) lookLater(id string) {
	c.mu.Lock()
	since := c.asks
	c.mu.Unlock()
	c.refreshes.mark(id, since)
}

// lookAfter is lookLater for an event. It may arrive when whoever caused it has already asked; then that answer does.
// The engine's clock is ours, and one that was set back in between is noticed by a question that lies in the future.
func (c *Cache) lookAfter(event docker.Event) {
	c.mu.Lock()
	since := c.asks
	if l, ok := c.looks[event.ID]; ok && event.Time.Before(l.at) && !l.at.After(time.Now().Round(0)) {
		since = l.asked - 1
	}
	c.mu.Unlock()
	c.refreshes.mark(event.ID, since)
}
