package docker

import (
	"context"
	"time"
)

// do makes one request with f on the current session, and gives the request's error a type, see typed. It connects
// first if there is no session. The context of f ends with the request's time limit. do refuses an impossible object
// name before it sends the request. If the request finds the engine away, do drops the session.
func (c *Client) do(ctx context.Context, o op, f func(context.Context, *session) error) (err error) {
	if err := o.kind.check(o.object); err != nil {
		return typed(ctx, o, err)
	}
	if !o.endless {
		var observed func(error)
		ctx, observed = c.observe(ctx, o.verb)
		defer func() { observed(err) }()
	}
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	bounded := ctx
	if o.bound > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, o.bound)
		defer cancel()
		defer c.reportSilence(o)()
	}
	err = f(bounded, s)
	if ctx.Err() == nil && isDisconnect(err) {
		if o.endless {
			// An event stream may outlive its session. Its end shows that the engine is away, so do drops the current
			// session instead of the stream's.
			s = c.current.Load()
		}
		c.drop(ctx, s, err)
	}
	return typed(ctx, o, err)
}

// silence is how long a request may wait for its answer before LastTimeout reports it. The end of RequestTimeout would
// report it too late or never: it is two minutes by default, and the deadline of a CRI request often comes first.
// silence is less than the ten seconds that package state gives an inspect.
const silence = 9 * time.Second

// reportSilence records a timeout for LastTimeout if a request waits longer than its grace period plus silence. Half of
// the request timeout takes the place of silence if it is shorter. The caller calls answered when the request ends.
func (c *Client) reportSilence(o op) (answered func()) {
	timer := time.AfterFunc(o.grace+min(silence, c.timeout/2), func() { c.timedOut.Store(time.Now()) })
	return func() { timer.Stop() }
}

// short makes a request with do, within the request timeout.
func (c *Client) short(ctx context.Context, o op, f func(context.Context, *session) error) error {
	o.bound = c.timeout
	return c.do(ctx, o, f)
}

// onContainer makes a request about one container with short.
func (c *Client) onContainer(ctx context.Context, verb, id string, f func(context.Context, *session) error) error {
	return c.short(ctx, op{verb: verb, kind: aContainer, object: id}, f)
}

// onExec makes a request about one exec with short.
func (c *Client) onExec(ctx context.Context, verb, id string, f func(context.Context, *session) error) error {
	return c.short(ctx, op{verb: verb, kind: anExec, object: id}, f)
}

// onImage makes a request about one image with short.
func (c *Client) onImage(ctx context.Context, verb, ref string, f func(context.Context, *session) error) error {
	return c.short(ctx, op{verb: verb, kind: anImage, object: ref}, f)
}

// lasting makes a request with do. The request goes on after its caller has left: at the end of the connection, some
// engines would cancel a start, or cut the grace period of a stop short. The caller gets its context's error at once.
func (c *Client) lasting(ctx context.Context, o op, f func(context.Context, *session) error) error {
	return c.do(ctx, o, func(ctx context.Context, s *session) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { // ends with the time limit o.bound
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.bound) // outlives the caller
			defer cancel()
			done <- f(bounded, s)
		}()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// doLong makes a request about one container with do. Only ctx limits its time.
func (c *Client) doLong(ctx context.Context, verb, id string, f func(context.Context, *session) error) error {
	return c.do(ctx, op{verb: verb, kind: aContainer, object: id}, f)
}
