package docker

import (
	"context"

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
