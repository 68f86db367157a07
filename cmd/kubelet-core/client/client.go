package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
)

const (
	// requestTimeout bounds each request, and maxResponse the size of its response in bytes.
	requestTimeout = 30 * time.Second
	maxResponse    = 256 << 20
)

// Config has the fields of /configz that the commands need.
type Config struct {
	Node            string `json:"node"`
	RuntimeEndpoint string `json:"runtimeEndpoint"`
	PodLogsDir      string `json:"podLogsDir"`
}

// Client reads from one kubelet core. It is safe for concurrent use.
type Client struct {
	address string
	http    http.Client
}

// New makes a client of the kubelet core whose read-only endpoint is address, host:port.
func New(address string) *Client {
	// No proxy: the address is a loopback address.
	return &Client{address: address, http: http.Client{Timeout: requestTimeout, Transport: &http.Transport{}}}
}

// Pods returns the kubelet's pods with their statuses.
func (c *Client) Pods(ctx context.Context) ([]v1.Pod, error) {
	var list v1.PodList
	err := c.get(ctx, "/pods", &list)
	return list.Items, err
}

// Events returns recent events, oldest first.
func (c *Client) Events(ctx context.Context) ([]v1.Event, error) {
	var list v1.EventList
	err := c.get(ctx, "/events", &list)
	return list.Items, err
}

// Config returns a part of the kubelet's configuration.
func (c *Client) Config(ctx context.Context) (Config, error) {
	var config Config
	err := c.get(ctx, "/configz", &config)
	return config, err
}

// get requests a path and decodes the response. It returns errdefs.ErrUnavailable if no kubelet core answers at the
// address.
func (c *Client) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+path, nil)
	if err != nil {
		return fmt.Errorf("read address %q: %w", c.address, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf(
			"no kubelet core answers at %s; is `kubelet-core run` running, with this --read-address? %w: %w", c.address,
			err, errdefs.ErrUnavailable)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("%s%s: %w", c.address, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s: is that a kubelet core?", c.address, path, response.Status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s%s: %w", c.address, path, err)
	}
	return nil
}
