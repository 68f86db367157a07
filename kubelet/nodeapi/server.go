package nodeapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options configure the read-only endpoint. All are required.
type Options struct {
	// Address is host:port. The host must be a loopback address or localhost.
	Address string
	Reads   Reads
	// Events lists recent events.
	Events func() []v1.Event
}

// Server is the read-only endpoint.
type Server struct {
	listener net.Listener
	handler  http.Handler
}

// Listen opens the endpoint, and Run serves it. It refuses addresses that are not loopback.
func Listen(opts Options) (*Server, error) {
	host, _, err := net.SplitHostPort(opts.Address)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	if !loopback(host) {
		return nil, fmt.Errorf(
			"read address %s: only loopback addresses are served, because clients are not authenticated", opts.Address)
	}
	listener, err := net.Listen("tcp", opts.Address)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	mux := http.NewServeMux()
	reads := newReads(opts.Reads)
	reads.listed = hideValues
	reads.routes(mux)
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, r,
			v1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: opts.Events()})
	})
	return &Server{listener: listener, handler: onlyLoopbackNames(mux)}, nil
}

// loopback reports whether a host is localhost or a loopback address, which is certainly this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// onlyLoopbackNames refuses requests whose Host header is not a loopback name or address. A web page may let its own
// name resolve to 127.0.0.1 (DNS rebinding). A browser on this machine then connects, but sends the page's name as
// Host.
func onlyLoopbackNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := (&url.URL{Host: r.Host}).Hostname(); !loopback(host) {
			http.Error(w, fmt.Sprintf("host %q is not served: use localhost or a loopback address", host),
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Address returns the listening address.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return serve(ctx, s.listener, s.handler)
}
