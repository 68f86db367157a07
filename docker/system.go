package docker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
)

// Features implements System.
func (c *Client) Features(ctx context.Context) (Features, error) {
	s, err := c.session(ctx)
	if err != nil {
		return Features{}, err
	}
	return s.features, nil
}

// Ping implements System.
func (c *Client) Ping(ctx context.Context) error {
	return c.short(ctx, op{verb: "ping"}, func(ctx context.Context, s *session) error {
		_, err := s.api.Ping(ctx, client.PingOptions{})
		return err
	})
}

// LastAnswer implements System.
func (c *Client) LastAnswer() time.Time { return load(&c.answered) }

// LastTimeout implements System.
func (c *Client) LastTimeout() time.Time { return load(&c.timedOut) }

func load(at *atomic.Pointer[time.Time]) time.Time {
	if t := at.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

func storeNow(at *atomic.Pointer[time.Time]) {
	now := time.Now()
	at.Store(&now)
}
