package docker

import (
	"context"
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

// FindOCIRuntime returns the engine's runtime without probing it: RecursiveReadOnly and UserNamespaces are unset. It
// returns the zero value if the engine has none, and an error if the engine's configuration makes the runtime unusable.
func (c *Client) FindOCIRuntime(ctx context.Context) (OCIRuntime, error) {
	var found OCIRuntime
	err := c.short(ctx, op{verb: "look for criadapter-oci"}, func(ctx context.Context, s *session) error {
		info, err := s.api.Info(ctx, client.InfoOptions{})
		if err != nil {
			return err
		}
		found, _, err = findOCIRuntime(info.Info, s.shim)
		return err
	})
	return found, err
}

// OCIRuntimeWorks reports whether the engine has criadapter-oci, and whether it works. It reads the current session and
// sends no request. Without a session, and with OCIRuntimeOff, both results are false.
func (c *Client) OCIRuntimeWorks() (found, works bool) {
	s := c.current.Load()
	if s == nil {
		return false, false
	}
	r := s.features.OCIRuntime
	return r.Name != "", r.Works()
}
