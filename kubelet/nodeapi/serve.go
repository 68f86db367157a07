package nodeapi

import (
	"context"
	"errors"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/log"
)

const (
	// headerTimeout bounds the headers of a request. idleTimeout is the time for which a connection may wait for the
	// next request. stopTimeout bounds the responses that are under way when ctx ends. Until then responses have no
	// limit while clients read them, because clients follow logs.
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	stopTimeout   = 5 * time.Second
)

// serve serves until ctx ends, which also ends each request's context. Handlers own the connections that they took over
// from HTTP.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("component", "nodeapi"))
	server := &http.Server{
		Handler: withLogger(boundStalls(handler)), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    stdlog.New(errorLog{ctx}, "", 0),
		Protocols:   new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true) // HTTP/2 cannot hand over connections
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // for clients that do not read their response
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// withLogger adds a logger with the request's fields to each request's context.
func withLogger(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := log.G(r.Context()).WithFields(log.Fields{"method": r.Method, "uri": r.URL.Path})
		next.ServeHTTP(w, r.WithContext(log.WithLogger(r.Context(), logger)))
	})
}

// errorLog logs net/http's lines about bad clients.
type errorLog struct{ ctx context.Context }

func (l errorLog) Write(p []byte) (int, error) {
	log.G(l.ctx).WithField("error", strings.TrimSpace(string(p))).Debug("connection error")
	return len(p), nil
}
