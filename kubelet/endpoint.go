package kubelet

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/server"
)

// runEndpoint serves reads until ctx ends.
func (k *Kubelet) runEndpoint(ctx context.Context) error {
	if k.opts.ReadAddress == "" {
		return nil
	}
	endpoint, err := server.Listen(server.Options{
		Address: k.opts.ReadAddress,
		Config: server.Config{
			Node: k.opts.NodeName, Owner: k.opts.Owner, RuntimeEndpoint: k.opts.RuntimeEndpoint, Runtime: k.runtime.Name,
			Manifests: k.opts.Manifests, RootDir: k.opts.RootDir, PodLogsDir: k.opts.PodLogsDir,
		},
		Pods: k.status.List, Events: k.events.List, Healthy: k.runtimeErr, Evented: k.pleg.Streaming,
		Stats: k.runtime, Selector: map[string]string{model.LabelOwner: k.opts.Owner},
	})
	if err != nil {
		return err
	}
	logrus.WithField("address", endpoint.Address()).Info("Serving reads")
	return endpoint.Run(ctx)
}
