package kubelet

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/server"
)

// listen opens the endpoints that are wanted.
func (k *Kubelet) listen() error {
	return errors.Join(k.listenReads(), k.listenAPI())
}

func (k *Kubelet) listenReads() error {
	if k.opts.ReadAddress == "" {
		return nil
	}
	endpoint, err := server.Listen(server.Options{
		Address: k.opts.ReadAddress, Reads: k.reads(), Events: k.events.List,
	})
	if err != nil {
		return err
	}
	k.endpoint = endpoint
	return nil
}

// listenAPI opens the kubelet's API.
func (k *Kubelet) listenAPI() error {
	opts := k.opts.API
	if opts.Port == 0 {
		return nil
	}
	var allow func(server.User) bool
	if len(opts.Users)+len(opts.Groups) > 0 {
		allow = server.AllowNamed(opts.Users, opts.Groups)
	}
	api, err := server.ListenTLS(server.APIOptions{
		Address: net.JoinHostPort(opts.Address, strconv.Itoa(int(opts.Port))), Reads: k.reads(), Runtime: k.runtime,
		CertFile: opts.CertFile, KeyFile: opts.KeyFile, CertDir: opts.CertDir, ClientCAFile: opts.ClientCAFile,
		NodeName: k.opts.NodeName, IPs: k.opts.NodeIPs, Allow: allow,
	})
	if err != nil {
		return err
	}
	k.api = api
	return nil
}

// reads are what the endpoints show; they are served after Run has begun.
func (k *Kubelet) reads() server.Reads {
	return server.Reads{
		Config: server.Config{
			Node: k.opts.NodeName, Owner: k.opts.Owner, RuntimeEndpoint: k.opts.RuntimeEndpoint, Runtime: k.runtime.Name,
			Manifests: k.opts.Manifests, RootDir: k.opts.RootDir, PodLogsDir: k.opts.PodLogsDir,
		},
		Pods: k.Pods, Healthy: k.runtimeErr, Evented: k.pleg.Streaming,
		Stats: k.runtime, Selector: map[string]string{model.LabelOwner: k.opts.Owner},
		Probes: func() []model.ProbeCount { return k.prober.Counts() }, SentEvents: k.sentEvents(),
	}
}

// sentEvents tells what became of events, nil without an API server.
func (k *Kubelet) sentEvents() func() map[string]int64 {
	if k.server == nil {
		return nil
	}
	return func() map[string]int64 {
		counts := k.server.sink.Counts()
		return map[string]int64{
			"sent": counts.Sent, "suppressed": counts.Suppressed, "dropped": counts.Dropped, "refused": counts.Refused,
		}
	}
}

// runEndpoint serves reads until ctx ends.
func (k *Kubelet) runEndpoint(ctx context.Context) error {
	if k.endpoint == nil {
		return nil
	}
	logrus.WithField("address", k.endpoint.Address()).Info("Serving reads")
	return k.endpoint.Run(ctx)
}

// runAPI serves the kubelet's API until ctx ends.
func (k *Kubelet) runAPI(ctx context.Context) error {
	if k.api == nil {
		return nil
	}
	logrus.WithField("address", k.api.Address()).Info("Serving the kubelet's API")
	return k.api.Run(ctx)
}

// ReadAddress is where the read-only endpoint listens, empty for nowhere.
func (k *Kubelet) ReadAddress() string {
	if k.endpoint == nil {
		return ""
	}
	return k.endpoint.Address()
}

// Pods returns all pods with their statuses, by namespace and name; they must not be changed.
func (k *Kubelet) Pods() []*v1.Pod { return k.status.List() }
