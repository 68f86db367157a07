package docker

import (
	"context"
	"time"
)

// short makes one request that is not long by nature.
func (c *Client) short(ctx context.Context, o op, do func(context.Context, *session) error) error {
	return c.within(ctx, c.timeout, o, do)
}

// long makes one request that ends with its context only.
func (c *Client) long(ctx context.Context, o op, do func(context.Context, *session) error) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	return c.failed(ctx, s, o, 0, do(ctx, s))
}

// within makes one request on the current session, connecting first if needed,
// and types its error. do gets a context that ends after bound at the latest.
// A request that finds the engine away drops the session.
func (c *Client) within(ctx context.Context, bound time.Duration, o op, do func(context.Context, *session) error) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return c.failed(ctx, s, o, bound, do(bounded, s))
}

// failed types the error of a request that was made on s with the caller's
// context ctx, and drops s when the error says that its engine is away.
func (c *Client) failed(ctx context.Context, s *session, o op, bound time.Duration, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && isDisconnect(err) {
		c.drop(s, err)
	}
	return typed(ctx, o, bound, err)
}

// onContainer is short for a request about one container.
func (c *Client) onContainer(ctx context.Context, verb, id string, do func(context.Context, *session) error) error {
	o := op{verb: verb, object: id}
	if err := checkObject("container", id); err != nil {
		return typed(ctx, o, 0, err)
	}
	return c.short(ctx, o, do)
}
