package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"
)

const (
	// headerTimeout is how long a client may take to send its request.
	headerTimeout = 5 * time.Second
	// idleTimeout closes connections that nobody scrapes through any more.
	idleTimeout = 2 * time.Minute
	// scrapeTimeout and maxScrapes bound what scrapes cost.
	scrapeTimeout = 10 * time.Second
	maxScrapes    = 4
)

// ServerOptions are what a Server needs.
type ServerOptions struct {
	// Listener is what is served; the Server closes it. Who reaches it sees
	// everything.
	Listener net.Listener
	Metrics  *Metrics
	// Ready is nil while the program can do its work, else the reason why not.
	Ready func() error
	// Profiles adds the profiles of the Go runtime below /debug/pprof/.
	Profiles bool
}

// Server answers /metrics, /healthz (200 while the process answers) and /readyz
// (200, or 503 with the reason).
type Server struct {
	listener net.Listener
	http     *http.Server
}

// NewServer returns a server. Call Serve to answer, and Close in any case.
func NewServer(opts ServerOptions) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Metrics.registry, promhttp.HandlerOpts{
		ErrorLog:            log.New(errorLog{}, "", 0),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, opts.Ready()) })
	if opts.Profiles {
		addProfiles(mux)
	}
	return &Server{
		listener: opts.Listener,
		http: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			ErrorLog:          log.New(errorLog{}, "", 0),
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

// errorLog takes what net/http and promhttp complain about.
type errorLog struct{ io.Writer }

func (errorLog) Write(p []byte) (int, error) {
	logrus.WithField("error", strings.TrimSpace(string(p))).Warn("serving metrics")
	return len(p), nil
}

// Serve answers until Close, and then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// Close closes the listener and lets requests finish until ctx ends, then cuts
// them off.
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
