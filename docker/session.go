package docker

import (
	"context"

	"github.com/moby/moby/client"
	"github.com/sirupsen/logrus"
)

// minAPIVersion is the API of Docker Engine 20.10, the oldest supported one.
const minAPIVersion = "1.41"

// session is one connection to one engine: a client with its negotiated API
// version and what that engine can do. It is immutable, and dropped as a whole
// when a call finds the engine away, because the engine that comes back may be
// another version.
type session struct {
	api      *client.Client
	features Features
}

// session returns the current session or connects. Only one caller connects at
// a time, the others wait for it, each no longer than its context.
func (c *Client) session(ctx context.Context) (*session, error) {
	if s := c.current.Load(); s != nil {
		return s, nil
	}
	o := op{verb: "connect to Docker Engine at", object: c.host, bound: c.timeout}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-bounded.Done():
		return nil, typed(ctx, o, bounded.Err())
	}
	if s := c.current.Load(); s != nil {
		return s, nil
	}
	observing, observed := c.observe(bounded, "connect")
	s, err := c.connect(observing)
	err = typed(ctx, o, err)
	observed(err)
	if err != nil {
		return nil, err
	}
	c.current.Store(s)
	logrus.WithFields(logrus.Fields{
		"host":          c.host,
		"version":       s.features.ServerVersion,
		"api":           s.features.APIVersion,
		"storage":       s.features.StorageDriver,
		"cgroupVersion": s.features.CgroupVersion,
		"cgroupDriver":  s.features.CgroupDriver,
	}).Info("Connected to Docker Engine")
	return s, nil
}

// drop forgets a session whose engine is away; the next call connects anew.
func (c *Client) drop(s *session, reason error) {
	if !c.current.CompareAndSwap(s, nil) {
		return
	}
	_ = s.api.Close()
	logrus.WithField("host", c.host).WithError(reason).Warn("Lost the connection to Docker Engine")
}

// connect negotiates the API version, reads what the engine is and can do, and
// refuses engines that cannot run pods.
func (c *Client) connect(ctx context.Context) (_ *session, err error) {
	peer, err := readPeer(ctx, c.host)
	if err != nil {
		return nil, err
	}
	api, err := c.newAPI()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = api.Close()
		}
	}()
	// The error of a failed negotiation is not used: what makes it fail is an
	// engine that is too old, which is refused by name instead.
	ping, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case ping.APIVersion == "" && err != nil:
		return nil, err
	case ping.APIVersion == "":
		return nil, refusal("what listens there names no Docker API version, so it is not Docker Engine")
	case versionLess(ping.APIVersion, minAPIVersion):
		return nil, c.tooOld(ctx, ping.APIVersion)
	case err != nil:
		return nil, err
	}
	seen, err := readFacts(ctx, api)
	if err != nil {
		return nil, err
	}
	seen.peer = peer
	features := seen.features(api.ClientVersion())
	if err := checkEngine(ctx, api, seen, features); err != nil {
		return nil, err
	}
	return &session{api: api, features: features}, nil
}

// tooOld refuses an engine by its own version when it tells it.
func (c *Client) tooOld(ctx context.Context, apiVersion string) error {
	name := "Docker Engine"
	if api, err := c.newAPI(client.WithAPIVersion(apiVersion)); err == nil {
		defer func() { _ = api.Close() }()
		if v, err := api.ServerVersion(ctx, client.ServerVersionOptions{}); err == nil {
			name += " " + v.Version
		}
	}
	return refusal("%s (API %s) is too old: 20.10 or later is needed", name, apiVersion)
}
