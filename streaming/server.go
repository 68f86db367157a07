package streaming

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/linger"
)

const (
	// defaultIdleTimeout is the default of Options.IdleTimeout, like the kubelet's --streaming-connection-idle-timeout.
	defaultIdleTimeout = 4 * time.Hour
	// creationTimeout is the time that a connected client has to open its streams.
	creationTimeout = 30 * time.Second
	// requestTimeout bounds each of a client's steps: to send a request, to read the answer, and to begin another
	// request.
	requestTimeout = 10 * time.Second
	// maxConnections bounds the connections of clients, most of which are sessions.
	maxConnections = 4096
	// maxRequestHeader bounds a request's header in bytes. The kubelet forwards its own client's header.
	maxRequestHeader = 64 << 10
)

// Options are the options of a Server.
type Options struct {
	// Runtime is required.
	Runtime Runtime
	// Address is the host:port to listen on, port 0 for any. A host other than loopback needs a certificate or
	// AllowPlaintext.
	Address string
	// CertFile and KeyFile are PEM files. With both, the server uses TLS.
	CertFile, KeyFile string
	// AllowPlaintext allows plain HTTP on any address.
	AllowPlaintext bool
	// IdleTimeout is the time without traffic in either direction after which a session ends, 0 for defaultIdleTimeout.
	IdleTimeout time.Duration
}

// Server returns URLs for sessions and serves them. All methods are safe for concurrent use.
type Server struct {
	runtime  Runtime
	idle     time.Duration
	listener *listener
	base     *url.URL
	http     *http.Server
	tickets  *tickets
	// end ends all sessions.
	end context.CancelFunc

	mu       sync.Mutex
	closed   bool
	sessions sync.WaitGroup
	open     map[string]int // by kind
}

// Listen opens the listener. It fails for an invalid address or certificate. Call Serve to answer requests, and Close
// in any case.
func Listen(opts Options) (*Server, error) {
	encryption, err := tlsConfig(opts.CertFile, opts.KeyFile)
	if err != nil {
		return nil, err
	}
	address, err := bindAddress(opts)
	if err != nil {
		return nil, err
	}
	tcp, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for exec, attach and port-forward: %w", err)
	}
	if opts.IdleTimeout <= 0 {
		opts.IdleTimeout = defaultIdleTimeout
	}
	// Sessions outlive the caller: they end with the server.
	ctx, end := context.WithCancel(log.WithLogger(context.Background(), log.L.WithField("component", "streaming")))
	s := &Server{
		runtime:  opts.Runtime,
		idle:     opts.IdleTimeout,
		listener: &listener{TCPListener: tcp, idle: opts.IdleTimeout, linger: linger.Grace, limit: maxConnections},
		base:     baseURL(tcp.Addr().(*net.TCPAddr), encryption != nil),
		tickets:  newTickets(),
		end:      end,
		open:     map[string]int{},
	}
	s.http = &http.Server{
		Handler:        http.HandlerFunc(s.serveHTTP),
		TLSConfig:      encryption,
		ReadTimeout:    requestTimeout, // an upgrade ends this and the next timeout
		WriteTimeout:   requestTimeout,
		MaxHeaderBytes: maxRequestHeader,
		ErrorLog:       stdlog.New(errorLog{logger: log.G(ctx)}, "", 0),
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withClient,
		Protocols:      new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true) // HTTP/2 has no upgrade of a connection
	return s, nil
}

// errorLog gets net/http's messages, which are about bad requests.
type errorLog struct{ logger *log.Entry }

// Write implements io.Writer.
func (l errorLog) Write(p []byte) (int, error) {
	l.logger.WithField("error", strings.TrimSpace(string(p))).Debug("bad streaming connection")
	return len(p), nil
}

// Serve answers requests until Close, and then returns nil.
func (s *Server) Serve() error {
	err := s.serve()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving exec, attach and port-forward: %w", err)
}

func (s *Server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

// Close closes the listener, ends all sessions and waits for their goroutines until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	err := errors.Join(s.http.Close(), ignoreClosed(s.listener.Close()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.sessions.Wait()
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("waiting for streaming sessions: %w", ctx.Err()))
	}
}

// ignoreClosed ignores the error of a second Close.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// url returns a URL for one request, which serve handles.
func (s *Server) url(ctx context.Context, kind string, serve handler) (string, error) {
	token, err := s.tickets.issue(ctx, kind, serve)
	if err != nil {
		return "", err
	}
	return s.base.JoinPath(kind, token).String(), nil
}
