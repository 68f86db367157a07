// Package enginecalls counts the API calls to an engine.
package enginecalls

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

// Proxy forwards requests to an engine's socket and counts them.
type Proxy struct {
	server *http.Server
	served chan error

	mu    sync.Mutex
	calls []string // method and path
	// listed is when the first list of containers since the last Take was answered.
	listed time.Time
}

// Start listens on a new socket at path.
func Start(path, engine string) (*Proxy, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	p := &Proxy{served: make(chan error, 1)}
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
		p.calls = append(p.calls, r.Method+" "+r.URL.Path)
		p.mu.Unlock()
		pass.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/containers/json") {
			p.answeredList()
		}
	})}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// Take returns the calls since the last Take, each as METHOD /PATH. listed is when the first list of containers was
// answered.
func (p *Proxy) Take() (calls []string, listed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, listed = p.calls, p.listed
	p.calls, p.listed = nil, time.Time{}
	return calls, listed
}

func (p *Proxy) answeredList() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed.IsZero() {
		p.listed = time.Now()
	}
}

// Close ends all connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
