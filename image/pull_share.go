package image

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/panics"
)

// pullKey identifies pulls that may share one transfer. It includes the credentials, so that a caller without the right
// credentials does not get another caller's image.
type pullKey struct {
	ref       string
	anonymous bool
	auth      docker.Auth
}

func newPullKey(ref string, auth *docker.Auth) pullKey {
	if auth == nil {
		return pullKey{ref: ref, anonymous: true}
	}
	return pullKey{ref: ref, auth: *auth}
}

// pulls are the transfers under way. golang.org/x/sync/singleflight does not fit: its call has the context of the first
// caller and outlives all callers. A transfer here ends with its last caller. The zero value is ready to use.
type pulls struct {
	mu       sync.Mutex
	underway map[pullKey]*sharedPull
}

// sharedPull is one transfer under way.
type sharedPull struct {
	cancel context.CancelFunc
	// pulls.mu guards waiters.
	waiters int
	// done is closed when id and err are set.
	done chan struct{}
	id   string
	err  error
}

// do returns the result of transfer, or of a transfer under way with the same key. transfer gets the values of ctx, in
// a context that ends with the last caller.
func (p *pulls) do(ctx context.Context, key pullKey, transfer func(context.Context) (string, error)) (string, error) {
	pull := p.join(ctx, key, transfer)
	defer p.leave(key, pull)
	select {
	case <-pull.done:
		return pull.id, pull.err
	case <-ctx.Done():
		return "", fmt.Errorf("pull of %q: %w", key.ref, ctx.Err())
	}
}

// join finds or begins the transfer of key, and counts the caller.
func (p *pulls) join(ctx context.Context, key pullKey, transfer func(context.Context) (string, error)) *sharedPull {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pull := p.underway[key]; pull != nil {
		pull.waiters++
		return pull
	}
	shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
	pull := &sharedPull{cancel: cancel, waiters: 1, done: make(chan struct{})}
	if p.underway == nil {
		p.underway = make(map[pullKey]*sharedPull)
	}
	p.underway[key] = pull
	go func() {
		defer close(pull.done)
		defer func() {
			if cause := recover(); cause != nil { // the server recovers no panic in this goroutine
				pull.err = panics.Report(log.G(ctx), "pull", fmt.Sprintf("pull of %q", key.ref), cause)
			}
		}()
		defer p.forget(key, pull)
		pull.id, pull.err = transfer(shared)
	}()
	return pull
}

// leave uncounts a caller. The last one cancels the transfer, and a later caller begins another.
func (p *pulls) leave(key pullKey, pull *sharedPull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pull.waiters--
	if pull.waiters == 0 {
		p.forgetLocked(key, pull)
		pull.cancel()
	}
}

// forget removes a finished transfer from the map, so that a later pull asks the registry again.
func (p *pulls) forget(key pullKey, pull *sharedPull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked(key, pull)
}

func (p *pulls) forgetLocked(key pullKey, pull *sharedPull) {
	if p.underway[key] == pull {
		delete(p.underway, key)
	}
}
