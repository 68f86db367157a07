package state

import (
	"time"

	"github.com/criadapter/criadapter/docker"
)

// look is the state of the inspects of one container.
type look struct {
	asked    uint64    // number of the last inspect
	at       time.Time // when the last inspect was sent
	answered uint64    // number of the newest inspect whose answer was merged
	missed   bool      // an inspect, a list or an event said that the running container is gone
}

// askAbout is ask for an inspect of one container. answeredAbout is answered for it.
func (c *Cache) askAbout(id string) question {
	q := c.ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.looks[id]
	l.asked, l.at = q.number, q.at
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

// answeredSince reports whether an inspect of the id that was sent after the request with this number has been merged.
func (c *Cache) answeredSince(id string, number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks[id].answered > number
}

// lookLater schedules an inspect of an id and never blocks. An inspect that any caller sends from now on replaces it.
func (c *Cache) lookLater(id string) {
	c.mu.Lock()
	since := c.asks
	c.mu.Unlock()
	c.refreshes.mark(id, since)
}

// lookAfter is lookLater for an event. An inspect that was sent after the event's time replaces the scheduled one, even
// if it was sent before the event arrived. The engine and this program have the same clock. If the clock was set since
// the inspect, the two times are not comparable, and the inspect replaces nothing.
func (c *Cache) lookAfter(event docker.Event) {
	c.mu.Lock()
	since := c.asks
	if l, ok := c.looks[event.ID]; ok && event.Time.Before(l.at) && !clockSet(l.at, time.Now()) {
		since = l.asked - 1
	}
	c.mu.Unlock()
	c.refreshes.mark(event.ID, since)
}

// clockSlack is how far the wall clock and the monotonic clock may drift apart before the clock counts as set. Ordinary
// drift is far smaller, because an event arrives within milliseconds of an inspect that was sent after it.
const clockSlack = time.Millisecond

// clockSet reports whether the machine's clock was set between two readings of time.Now.
func clockSet(from, to time.Time) bool {
	return (to.Sub(from) - to.Round(0).Sub(from.Round(0))).Abs() > clockSlack
}
