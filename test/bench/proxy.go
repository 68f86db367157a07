package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
)

// proxy passes requests to an engine's socket on and counts them.
type proxy struct {
	server *http.Server
	served chan error

	mu    sync.Mutex
	calls map[string]int // by method and path
}

// startProxy listens on a new socket at path.
func startProxy(path, engine string) (*proxy, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	p := &proxy{served: make(chan error, 1), calls: map[string]int{}}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", engine)
		}},
		FlushInterval: -1, // an event must not wait for the next one
	}
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls[r.Method+" "+r.URL.Path]++
		p.mu.Unlock()
		pass.ServeHTTP(w, r)
	})}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// take returns the calls since the last take.
func (p *proxy) take() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = map[string]int{}
	return calls
}

// close hangs up on everyone.
func (p *proxy) close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// measureEngineCalls restarts criadapter with a counting proxy before its engine, and counts the calls of relists and
// statuses. The restarted server must know all pods.
func (b *bench) measureEngineCalls(ctx context.Context) (err error) {
	s := b.servers[0]
	defer func() { err = errors.Join(err, b.crowd.shrink(context.WithoutCancel(ctx), 0)) }()
	engine, err := os.Readlink(b.engineLink)
	if err != nil {
		return err
	}
	p, err := startProxy(b.engineLink+".proxy", engine)
	if err != nil {
		return err
	}
	// The pods are removed through the proxy, which therefore ends with the process.
	if err := b.adapter.Stop(ctx); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(b.engineLink), os.Symlink(b.engineLink+".proxy", b.engineLink)); err != nil {
		return err
	}
	if err := b.adapter.Start(ctx); err != nil {
		return err
	}
	if err := s.waitRelist(ctx, allPods); err != nil {
		return err
	}
	b.result.StartCalls = sum(p.take())
	for range relistsCounted {
		if err := errors.Join(s.relist(ctx, allPods), b.crowd.podStatus(ctx), b.crowd.containerStatus(ctx)); err != nil {
			return err
		}
	}
	calls := p.take()
	b.result.RelistCalls = calls
	return nil
}
