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
	// headerTimeout bounds how long a client may take to send a request, idleTimeout how long a connection may wait for
	// the next one, stopTimeout how long responses may take after the end. A response may last: logs are followed.
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	stopTimeout   = 5 * time.Second
)

// serve serves until ctx ends, which is also the end of each request's context. Connections that were taken over from
// HTTP are their handlers' own.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("component", "nodeapi"))
	server := &http.Server{
		Handler: withLogger(handler), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    stdlog.New(errorLog{ctx}, "", 0),
		Protocols:   new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true) // connections are taken over, which HTTP/2 cannot
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
		err = server.Close() // a client that does not read its response gets none
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// withLogger gives each request's context a logger that names the request.
func withLogger(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := log.G(r.Context()).WithFields(log.Fields{"method": r.Method, "uri": r.URL.Path})
		next.ServeHTTP(w, r.WithContext(log.WithLogger(r.Context(), logger)))
	})
}

// errorLog takes what net/http says of bad clients, one line at a time.
type errorLog struct{ ctx context.Context }

func (l errorLog) Write(p []byte) (int, error) {
	log.G(l.ctx).WithField("error", strings.TrimSpace(string(p))).Debug("connection error")
	return len(p), nil
}
