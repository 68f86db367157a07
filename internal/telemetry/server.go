package telemetry

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// headerTimeout is the time that a client has to send its request.
	headerTimeout = 5 * time.Second
	// idleTimeout is the time after which an unused connection is closed.
	idleTimeout = 2 * time.Minute
	// scrapeTimeout and maxScrapes bound the cost of scrapes.
	scrapeTimeout = 10 * time.Second
	maxScrapes    = 4
)

// ServerOptions are the options of a Server.
type ServerOptions struct {
	// Listener accepts the clients, which see all pages. The Server closes it.
	Listener net.Listener
	Metrics  *Metrics
	// Ready returns nil while the program can work, else the reason.
	Ready func() error
	// Flags returns the settings in force, for /flagz.
	Flags func() map[string]string
	// Profiles adds the profiles of the Go runtime below /debug/pprof/.
	Profiles bool
}

// Server answers /metrics, /healthz (200 while the process answers), /readyz (200, or 503 with the reason), /statusz
// and /flagz.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// NewServer returns a server. Call Serve to answer requests, and Close in any case.
func NewServer(opts ServerOptions) *Server {
	errorLog := stdlog.New(serveErrors{}, "", 0)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Metrics.registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, opts.Ready()) })
	paths := []string{"/flagz", "/healthz", "/metrics", "/readyz", "/statusz"}
	if opts.Profiles {
		addProfiles(mux)
		paths = append([]string{"/debug"}, paths...)
	}
	mux.Handle("GET /statusz", statusz(opts.Metrics.version, time.Now(), paths))
	mux.Handle("GET /flagz", flagz(opts.Flags))
	return &Server{
		listener: opts.Listener,
		http: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			ErrorLog:          errorLog,
		},
	}
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// serveErrors logs messages of net/http and promhttp.
type serveErrors struct{}

// Write implements io.Writer.
func (serveErrors) Write(p []byte) (int, error) {
	log.L.WithFields(log.Fields{"component": "telemetry", "error": strings.TrimSpace(string(p))}).
		Warn("cannot serve metrics request")
	return len(p), nil
}

// Serve answers requests until Close, and then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// Close closes the listener. Requests may finish until ctx ends, and then their connections are closed.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if closed := s.listener.Close(); !errors.Is(closed, net.ErrClosed) { // Serve was never called
		err = errors.Join(err, closed)
	}
	return err
}
