package docker

import (
	"context"

	"github.com/containerd/log"
	"github.com/moby/moby/client"
)

// minAPIVersion is the API of Docker Engine 20.10, the oldest supported one.
const minAPIVersion = "1.41"

// session returns the current session, or connects if there is none. One caller connects at a time. The others wait
// until their context ends or c.timeout has passed.
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

// notConnected gives a type to the error of a connect, see typed. A nil error stays nil.
func (c *Client) notConnected(ctx context.Context, err error) error {
	return typed(ctx, op{verb: "connect to Docker Engine at", object: c.host, bound: c.timeout}, err)
}

// lookAgain replaces an outdated session in the background, unless a connect is already running. Requests do not wait
// for the connect: its probe of a broken runtime may take proofTimeout, and the engine would count as hanging. If the
// connect fails, the old session stays, and the next request tries again.
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
			log.G(ctx).WithError(err).Debug("cannot probe Docker Engine again")
		}
	}()
}

// open connects and makes the result the current session. bounded is ctx with the timeout of a connect. The caller
// holds c.connecting.
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
		c.current.CompareAndSwap(s, nil) // the features may date from before the reload
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

// drop forgets a session that lost its engine. The next call connects again. A nil session is ignored.
func (c *Client) drop(ctx context.Context, s *session, reason error) {
	if s == nil || !c.current.CompareAndSwap(s, nil) {
		return
	}
	_ = s.api.Close()
	log.G(ctx).WithField("host", c.host).WithError(reason).Warn("lost connection to Docker Engine")
}

// renew forgets the session after the engine has reloaded its daemon.json. The next call reads the engine's features
// again. Running calls go on, and their connections close once they are idle.
func (c *Client) renew(ctx context.Context) {
	c.reloads.Add(1)
	if c.current.Swap(nil) != nil {
		log.G(ctx).WithField("host", c.host).Info("Docker Engine has read its configuration again")
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
	// Ping cannot negotiate with an engine that is too old. The error of tooOld then replaces Ping's error, because it
	// names the engine's version.
	ping, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case ping.APIVersion == "" && err != nil:
		return nil, err
	case ping.APIVersion == "":
		return nil, refusal("the server at this socket reports no Docker API version, so it is not Docker Engine")
	case versionLess(ping.APIVersion, minAPIVersion):
		return nil, c.tooOld(ctx, ping.APIVersion)
	case err != nil:
		return nil, err
	}
	found, err := readFacts(ctx, api)
	if err != nil {
		return nil, err
	}
	// enginePID runs after Ping, because Ping may make systemd start the engine.
	found.peer = enginePID("/proc", peer, socketPath(c.host), found.info.DockerRootDir)
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
		if err := lookAtBridge(ctx, api, &features); err != nil {
			return nil, err
		}
	}
	s := &session{api: api, features: features, engineID: found.info.ID, runtimes: found.info.Runtimes}
	s.shim = features.Supports(apiShim) && hasShim(witness("/proc", found.peer), shimProgram)
	return s, c.addOCIRuntime(ctx, s, found)
}

// tooOld returns the error for an engine below minAPIVersion, with the engine's version if the engine reports it.
// Podman 3 has such an old API version, too, and gets Podman's refusal.
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
