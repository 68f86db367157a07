package docker

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	// defaultHost is where Docker Engine listens by default.
	defaultHost = "unix:///var/run/docker.sock"
	// defaultRequestTimeout is the default of Options.RequestTimeout, and of cri-dockerd's --runtime-request-timeout.
	defaultRequestTimeout = 2 * time.Minute

	// idleConnections is the number of connections kept open between calls, so that a burst of pods reuses them.
	idleConnections = 64
	// idleTimeout is how long an unused connection stays open.
	idleTimeout = 90 * time.Second
)

// Options are the options of Dial. The zero value stands for the local engine at its default socket.
type Options struct {
	// Host is the engine's address, unix:///path/to/docker.sock. Empty means
	// defaultHost. The environment (DOCKER_HOST and the like) is not read.
	Host string
	// RequestTimeout bounds the wait for the answer to a request. For a stop, its grace period is added. RequestTimeout
	// does not bound transfers (pulls, loads, saves, copies), checkpoints and open streams. Zero means
	// defaultRequestTimeout.
	RequestTimeout time.Duration
	// LogDriver is the engine's log driver for containers, used with the log option mode=blocking. The client refuses
	// an engine whose daemon.json makes this mode impossible. If LogDriver is empty, the client skips this check.
	LogDriver string
	// Bridge says that pods use the engine's default bridge. The bridge is then checked, see Features.BridgeFault.
	Bridge bool
	// OCIRuntime says whether criadapter-oci is used, see Features.OCIRuntime. Empty is
	// OCIRuntimeOff.
	OCIRuntime OCIRuntimeMode
	// Observe is called at the beginning of every request, for metrics and traces. It may be nil. call is one of a few
	// fixed phrases, such as "create container". The request uses the returned context, and passes its error to the
	// returned function. The event stream is not a request.
	Observe func(ctx context.Context, call string) (context.Context, func(error))
}

// Client is an Engine on a real Docker Engine behind a unix socket. It connects at the first call, and again after the
// engine was away. So a client may be made before the engine runs. All methods are safe for concurrent use.
//
// A connection is refused with ErrFailedPrecondition if the engine is too old, runs elsewhere or cannot run pods, see
// checkEngine. A call that needs a connection gets this error, and the next call tries again.
type Client struct {
	host    string
	timeout time.Duration
	// logDriver, bridge and ociRuntime are fields of Options.
	logDriver  string
	bridge     bool
	ociRuntime OCIRuntimeMode
	proof      atomic.Pointer[proof]
	// proving is the running proof of the OCI runtime, nil for none. Only the holder of connecting's token may use it.
	proving *proofRun
	observe func(ctx context.Context, call string) (context.Context, func(error))
	// connecting holds one token. A goroutine must take it to connect.
	connecting chan struct{}
	current    atomic.Pointer[session]
	// reloads counts how often the engine has read its configuration again.
	reloads atomic.Int64
	// answered and timedOut hold the results of LastAnswer and LastTimeout, each a time.Time.
	answered, timedOut atomic.Value
}

var _ Engine = (*Client)(nil)

// Dial returns a client of the engine at opts.Host without connecting to it. It fails with ErrFailedPrecondition for an
// address that is not a unix socket. criadapter shares files, namespaces and process ids with its engine, so the engine
// must be on the same machine.
func Dial(opts Options) (*Client, error) {
	opts.Host = cmp.Or(opts.Host, defaultHost)
	if opts.RequestTimeout <= 0 {
		opts.RequestTimeout = defaultRequestTimeout
	}
	if opts.Observe == nil {
		opts.Observe = unobserved
	}
	if err := CheckHost(opts.Host); err != nil {
		return nil, err
	}
	c := &Client{
		host:       opts.Host,
		timeout:    opts.RequestTimeout,
		logDriver:  opts.LogDriver,
		bridge:     opts.Bridge,
		ociRuntime: opts.OCIRuntime,
		observe:    opts.Observe,
		connecting: make(chan struct{}, 1),
	}
	api, err := c.newAPI()
	if err != nil {
		return nil, fmt.Errorf("docker endpoint %q: %w: %w", opts.Host, errdefs.ErrInvalidArgument, err)
	}
	return c, api.Close()
}

// Close closes the idle connections to the engine. Calls that are under way go on, and a later call connects again.
func (c *Client) Close() error {
	if s := c.current.Swap(nil); s != nil {
		return s.api.Close()
	}
	return nil
}

// unobserved replaces a nil Options.Observe.
func unobserved(ctx context.Context, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// CheckHost returns the error that Dial would return for an address. The address must not be empty.
func CheckHost(host string) error {
	scheme, path, found := strings.Cut(host, "://")
	switch {
	case !found || path == "":
		return fmt.Errorf("docker endpoint %q: %w: write it as unix:///path/to/docker.sock",
			host, errdefs.ErrInvalidArgument)
	case scheme != "unix":
		return fmt.Errorf("docker endpoint %q: %w: the engine must be on this machine, because pods share files, "+
			"namespaces and process ids with it; name its unix socket (unix:///var/run/docker.sock)",
			host, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// newAPI makes a moby client with a connection pool of its own. If that client negotiated its version at its first
// request, the negotiation would race with readers of the version. So connect negotiates before other goroutines get
// the client.
func (c *Client) newAPI(opts ...client.Opt) (*client.Client, error) {
	// The transport allows HTTP/1 only. moby copies the transport: with HTTP/2, the copy would get TLS settings, and
	// use TLS on the socket.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	httpClient := &http.Client{
		Transport: &http.Transport{
			MaxIdleConns:        idleConnections,
			MaxIdleConnsPerHost: idleConnections,
			IdleConnTimeout:     idleTimeout,
			Protocols:           protocols,
		},
		CheckRedirect: client.CheckRedirect,
	}
	return client.New(append([]client.Opt{
		client.WithHTTPClient(httpClient),
		client.WithHost(c.host),
		client.WithUserAgent("criadapter"),
		client.WithHTTPResponseHook(func(response *http.Response) {
			c.answered.Store(time.Now())
			sendStatus(response)
		}),
		// An engine with tracing continues the trace of the request's context.
		client.WithTraceProvider(noop.NewTracerProvider()), // Observe makes the span of a call
		client.WithTraceOptions(otelhttp.WithPropagators(propagation.TraceContext{})),
	}, opts...)...)
}

func load(at *atomic.Value) time.Time {
	t, _ := at.Load().(time.Time)
	return t
}
