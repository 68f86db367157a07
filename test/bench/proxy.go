package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

// proxy passes requests to an engine's socket on and counts them.
type proxy struct {
	server *http.Server
	served chan error

	mu    sync.Mutex
	calls map[string]int // by method and path
	// listed is when the first list of containers since the last take was answered.
	listed time.Time
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
		if strings.HasSuffix(r.URL.Path, "/containers/json") {
			p.answeredList()
		}
	})}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// take returns the calls since the last take, and when the first list of containers among them was answered.
func (p *proxy) take() (calls map[string]int, listed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, listed = p.calls, p.listed
	p.calls, p.listed = map[string]int{}, time.Time{}
	return calls, listed
}

func (p *proxy) answeredList() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed.IsZero() {
		p.listed = time.Now()
	}
}

// close ends all connections.
func (p *proxy) close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
