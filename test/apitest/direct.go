package apitest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Config returns the configuration of a client of the Server at an address. The client sends and reads JSON.
func Config(address string) *rest.Config {
	return &rest.Config{Host: address, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// requestTimeout bounds each request of the clients in memory, as a node bounds its own.
const requestTimeout = 10 * time.Second

// Core returns a client that calls the server in the same goroutine. It has no connection, so that tests can run in
// fake time. It cannot watch.
func (s *Server) Core() corev1.CoreV1Interface {
	client, err := corev1.NewForConfigAndClient(Config("http://server"), s.direct())
	if err != nil {
		panic(err) // cannot happen, the configuration is valid
	}
	return client
}

// Coordination is Core for leases.
func (s *Server) Coordination() coordinationv1.CoordinationV1Interface {
	client, err := coordinationv1.NewForConfigAndClient(Config("http://server"), s.direct())
	if err != nil {
		panic(err) // cannot happen, the configuration is valid
	}
	return client
}

func (s *Server) direct() *http.Client {
	return &http.Client{Transport: direct{s}, Timeout: requestTimeout}
}

// Request is one request of a client in memory, answered or not.
type Request struct {
	At                 time.Time
	Method, Path, Body string
}

// Requests returns the requests of a method whose path ends in suffix, oldest first.
func (s *Server) Requests(method, suffix string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool {
		return r.Method != method || !strings.HasSuffix(r.Path, suffix)
	})
}

// direct is the transport of the clients in memory.
type direct struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.server.mu.Lock()
	d.server.requests = append(d.server.requests, Request{time.Now(), r.Method, r.URL.Path, string(body)})
	away, hang := d.server.away, d.server.hang
	d.server.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if away {
		return nil, errors.New("connection refused")
	}
	recorder := httptest.NewRecorder()
	d.server.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// SetAway makes the requests of the clients in memory fail as if no server listened.
func (s *Server) SetAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// SetHang makes new requests of the clients in memory wait until their callers give up.
func (s *Server) SetHang(hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
}

// SetFail sets a function that the server calls before each request for one object. Its argument is the request in the
// form of Calls. If fail returns an error, the server answers with that error. An error that is no API status becomes
// an internal error. fail must not call the server. SetFail(nil) ends the failures.
func (s *Server) SetFail(fail func(call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = fail
}
