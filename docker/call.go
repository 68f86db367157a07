package docker

import (
	"context"
	"time"
)

// op is a request: what error messages call it, and its time limit.
type op struct {
	verb, object string
	// bound is the longest that the request may take, zero for as long as its
	// caller's context lasts.
	bound time.Duration
	// grace is the part of bound that the request may take without a sign that
	// the engine does not answer: a stop waits for its container.
	grace time.Duration
	// endless marks a request that lasts as long as the connection and is not
	// observed.
	endless bool
}

func (o op) String() string {
	if o.object == "" {
		return o.verb
	}
	return o.verb + " " + o.object
}

// do makes one request on the current session, connecting first if needed, and
// types its error. f gets a context with the request's bound. A request that
// finds the engine away drops the session.
func (c *Client) do(ctx context.Context, o op, f func(context.Context, *session) error) (err error) {
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
		defer c.noteSilence(o)()
	}
	err = f(bounded, s)
	if ctx.Err() == nil && isDisconnect(err) {
		if o.endless {
			s = c.current.Load() // the stream may be older: the engine is away for all
		}
		c.drop(ctx, s, err)
	}
	return typed(ctx, o, err)
}

// silence is how long a request may wait before LastTimeout tells of it. Deadlines are no measure: that of a CRI request
// is often the earlier one, and minutes away. It is less than the ten seconds that state gives an inspect.
const silence = 9 * time.Second

// noteSilence lets LastTimeout tell of a request that waits for long, until the returned function is called.
func (c *Client) noteSilence(o op) (answered func()) {
	timer := time.AfterFunc(o.grace+min(silence, c.timeout/2), func() { storeNow(&c.timedOut) })
	return func() { timer.Stop() }
}

// short is do for a request that is not long by nature.
func (c *Client) short(ctx context.Context, o op, f func(context.Context, *session) error) error {
	o.bound = c.timeout
	return c.do(ctx, o, f)
}

// onContainer is short for a request about one container.
func (c *Client) onContainer(ctx context.Context, verb, id string, f func(context.Context, *session) error) error {
	o := op{verb: verb, object: id}
	if err := checkObject("container", id); err != nil {
		return typed(ctx, o, err)
	}
	return c.short(ctx, o, f)
}

// onExec is short for a request about one exec.
func (c *Client) onExec(ctx context.Context, verb, id string, f func(context.Context, *session) error) error {
	o := op{verb: verb, object: id}
	if err := checkObject("exec", id); err != nil {
		return typed(ctx, o, err)
	}
	return c.short(ctx, o, f)
}

// onImage is short for a request about one image.
func (c *Client) onImage(ctx context.Context, verb, ref string, f func(context.Context, *session) error) error {
	o := op{verb: verb, object: ref}
	if err := checkImage(ref); err != nil {
		return typed(ctx, o, err)
	}
	return c.short(ctx, o, f)
}
