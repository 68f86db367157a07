package kubelet

import (
	"context"
	"errors"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/node"
)

// newNode describes this machine. Without a cluster the description serves the admission of pods alone.
func (k *Kubelet) newNode(ctx context.Context) error {
	opts := node.Options{
		Name: k.opts.NodeName, IPs: k.opts.NodeIPs, Labels: k.opts.Cluster.Labels, Taints: k.opts.Cluster.Taints,
		MaxPods: k.opts.Cluster.MaxPods, Reserved: k.opts.Cluster.Reserved, StatusEvery: k.opts.Cluster.StatusEvery,
		Port: k.opts.API.Port, RootDir: k.opts.RootDir, ImageDir: k.imageDir(ctx),
		RuntimeVersion: func() string { return k.runtime.Name + "://" + k.runtime.Version },
		RuntimeErr:     func() error { return errors.Join(k.ready.Runtime(), k.pleg.Err()) },
		NetworkErr:     k.ready.Network,
		Features: func() ([]v1.NodeRuntimeHandler, *v1.NodeFeatures) {
			return node.RuntimeFeatures(k.ready.Last())
		},
		Images: func(ctx context.Context) ([]v1.ContainerImage, error) {
			images, err := k.runtime.Images.ListImages(ctx, nil)
			return node.ContainerImages(images), err
		},
		Event: k.record,
	}
	if k.server != nil {
		opts.Clients = k.server.clients
	}
	var err error
	k.node, err = node.New(opts)
	return err
}

// imageDir is the folder where the runtime keeps images; empty if it does not tell.
func (k *Kubelet) imageDir(ctx context.Context) string {
	info, err := k.runtime.ImageFsInfo(ctx)
	if err != nil || len(info.GetImageFilesystems()) == 0 {
		logrus.WithError(err).Info("The runtime does not tell where its images are: their disk is taken for the pods'")
		return ""
	}
	return info.GetImageFilesystems()[0].GetFsId().GetMountpoint()
}

// record keeps an event of the node.
func (k *Kubelet) record(warning bool, reason, message string) {
	k.events.Record(events.Event{Warning: warning, Reason: reason, Message: message})
}
