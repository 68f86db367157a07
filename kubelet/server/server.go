package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// headerTimeout bounds how long a client may take to ask, stopTimeout how long answers may take after the end.
	headerTimeout = 10 * time.Second
	stopTimeout   = 5 * time.Second
)

// Stats asks the runtime for figures; a CRI runtime service is one.
type Stats interface {
	ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
}

// Config is what /configz tells.
type Config struct {
	Node            string `json:"node"`
	Owner           string `json:"owner"`
	RuntimeEndpoint string `json:"runtimeEndpoint"`
	Runtime         string `json:"runtime"`
	Manifests       string `json:"manifests"`
	RootDir         string `json:"rootDir"`
	PodLogsDir      string `json:"podLogsDir"`
}

// Options say what is shown. All are required.
type Options struct {
	// Address is host:port; the host must be a loopback address or localhost.
	Address string
	Config  Config
	// Pods and Events list what is known; Healthy says what is wrong, if anything.
	Pods    func() []*v1.Pod
	Events  func() []v1.Event
	Healthy func() error
	// Stats gives the figures, of what Selector matches.
	Stats    Stats
	Selector map[string]string
	// Evented says whether the runtime streams its events now.
	Evented func() bool
}

// Server is the endpoint.
type Server struct {
	opts     Options
	listener net.Listener
	started  time.Time
}

// Listen opens the endpoint; Run serves it. An address that others could reach is refused.
func Listen(opts Options) (*Server, error) {
	host, _, err := net.SplitHostPort(opts.Address)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("read address %s: only loopback addresses are served, because nobody is asked who he is", opts.Address)
	}
	listener, err := net.Listen("tcp", opts.Address)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	return &Server{opts: opts, listener: listener, started: time.Now()}, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.opts.Config) })
	mux.HandleFunc("GET /stats/summary", s.summary)
	mux.HandleFunc("GET /metrics", s.metrics)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(stop)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		logrus.WithError(err).Debug("An answer was not taken")
	}
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for _, pod := range s.opts.Pods() {
		list.Items = append(list.Items, *pod)
	}
	answer(w, list)
}

func (s *Server) events(w http.ResponseWriter, _ *http.Request) {
	answer(w, v1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: s.opts.Events()})
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.opts.Healthy(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}
