package server

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// headerTimeout bounds how long a client may take to ask, idleTimeout how long a connection may wait for a next
	// question, stopTimeout how long answers may take after the end. An answer may last: logs are followed.
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	stopTimeout   = 5 * time.Second
)

// serve answers until ctx ends, which is also the end of each request's context. Connections that were taken over from
// HTTP are their handlers' own.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(complaints{}, "", 0),
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
		err = server.Close() // a client that takes no answer gets none
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// complaints takes what net/http says of bad clients, one line at a time.
type complaints struct{ io.Writer }

func (complaints) Write(p []byte) (int, error) {
	logrus.WithField("error", strings.TrimSpace(string(p))).Debug("A connection to the kubelet")
	return len(p), nil
}
