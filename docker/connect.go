package docker

import (
	"context"

	"github.com/containerd/log"
	"github.com/moby/moby/client"
)

// minAPIVersion is the API of Docker Engine 20.10, the oldest supported one.
const minAPIVersion = "1.41"

// session returns the current session or connects. Only one caller connects at
// a time, the others wait for it, each no longer than its context.
func (c *Client) session(ctx context.Context) (*session, error) {
	if s := c.current.Load(); s != nil {
		if s.outdated() {
			c.lookAgain(ctx)
		}
		return s, nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-bounded.Done():
		return nil, c.notConnected(ctx, bounded.Err())
	}
	if s := c.current.Load(); s != nil {
		return s, nil
	}
	return c.open(ctx, bounded)
}

// notConnected types the error of a connect, nil for none.
func (c *Client) notConnected(ctx context.Context, err error) error {
	return typed(ctx, op{verb: "connect to Docker Engine at", object: c.host, bound: c.timeout}, err)
}

// lookAgain replaces an outdated session in the background, unless that is under way. No request waits for it. A broken
// runtime may take proofTimeout to show, and a request that waits so long would make the engine count as hanging. On a
// failure the old session stays, and the next request tries again.
func (c *Client) lookAgain(ctx context.Context) {
	select {
	case c.connecting <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-c.connecting }()
		if s := c.current.Load(); s == nil || !s.outdated() {
			return
		}
		ctx := context.WithoutCancel(ctx)
		bounded, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		if _, err := c.open(ctx, bounded); err != nil {
			log.G(ctx).WithError(err).Debug("cannot look at Docker Engine again")
		}
	}()
}

// open connects and makes the result the current session. bounded is ctx with the bound of a connect. The caller holds
// the token of c.connecting.
func (c *Client) open(ctx, bounded context.Context) (*session, error) {
	reloads := c.reloads.Load()
	observing, observed := c.observe(bounded, "connect")
	s, err := c.connect(observing)
	err = c.notConnected(ctx, err)
	observed(err)
	if err != nil {
		return nil, err
	}
	if c.current.Store(s); c.reloads.Load() != reloads {
		c.current.CompareAndSwap(s, nil) // what was found may be of before the reload
	}
	log.G(ctx).WithFields(log.Fields{
		"host":          c.host,
		"version":       s.features.ServerVersion,
		"apiVersion":    s.features.APIVersion,
		"storageDriver": s.features.StorageDriver,
		"cgroupVersion": s.features.CgroupVersion,
		"cgroupDriver":  s.features.CgroupDriver,
	}).Info("connected to Docker Engine")
	return s, nil
}

// drop forgets a session whose engine is away; the next call connects anew. A nil session is ignored.
func (c *Client) drop(ctx context.Context, s *session, reason error) {
	if s == nil || !c.current.CompareAndSwap(s, nil) {
		return
	}
	_ = s.api.Close()
	log.G(ctx).WithField("host", c.host).WithError(reason).Warn("lost connection to Docker Engine")
}

// renew forgets the session after the engine has read its daemon.json again: the next call reads the engine's features
// anew. Running calls go on, and their connections close once they are idle.
func (c *Client) renew(ctx context.Context) {
	c.reloads.Add(1)
	if c.current.Swap(nil) != nil {
		log.G(ctx).WithField("host", c.host).Info("the Docker Engine read its configuration again")
	}
}

// connect negotiates the API version, reads the engine's facts, and refuses engines that cannot run pods.
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
	// The error of a failed negotiation is not used: it means that the engine is too old, which is refused by name
	// instead.
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
	found, err := readFacts(ctx, api)
	if err != nil {
		return nil, err
	}
	found.peer = behind("/proc", peer, socketPath(c.host)) // now that the engine runs: it has answered
	features := found.features(api.ClientVersion())
	if err := checkEngine(ctx, api, found, features); err != nil {
		return nil, err
	}
	if c.logDriver != "" && c.logDriver == found.info.LoggingDriver {
		if err := checkLogOptions(ctx, c.host, c.logDriver, features.APIVersion); err != nil {
			return nil, err
		}
	}
	if c.bridge {
		if features.BridgeAddress, features.BridgeFault, err = lookAtBridge(ctx, api); err != nil {
			return nil, err
		}
	}
	s := &session{api: api, features: features, engineID: found.info.ID, runtimes: found.info.Runtimes}
	s.shim = features.Supports(apiShim) && hasShim(witness("/proc", found.peer))
	return s, c.addOCIRuntime(ctx, s, found)
}

// tooOld refuses an engine, by its own version when that is known. Podman 3 names
// an API version below 20.10's.
func (c *Client) tooOld(ctx context.Context, apiVersion string) error {
	name := "Docker Engine"
	if api, err := c.newAPI(client.WithAPIVersion(apiVersion)); err == nil {
		defer func() { _ = api.Close() }()
		if v, err := api.ServerVersion(ctx, client.ServerVersionOptions{}); err == nil {
			if isPodman(v) {
				return podmanRefusal()
			}
			name += " " + v.Version
		}
	}
	return refusal("%s (API %s) is too old: 20.10 or later is needed", name, apiVersion)
}
