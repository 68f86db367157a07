package apiserver

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/kubelet/apiserver/node"
)

// NodeOptions describe this machine. New sets the functions that ask the runtime, the API server's clients and Event.
type NodeOptions = node.Options

// reporter returns the options of the node's reporter. Without clients the reporter only describes the node, for
// admission.
func (o Options) reporter(clients *connect.Clients) node.Options {
	reporter := o.Node
	reporter.Clients, reporter.NetworkErr, reporter.Event = clients, o.State.Network, o.Events.RecordNode
	reporter.RuntimeVersion = func() string { return o.Runtime.Name + "://" + o.Runtime.Version }
	reporter.RuntimeErr = func() error { return errors.Join(o.State.Runtime(), o.PLEGErr()) }
	reporter.Features = func() ([]v1.NodeRuntimeHandler, *v1.NodeFeatures) {
		return node.RuntimeFeatures(o.State.Last())
	}
	reporter.Images = func(ctx context.Context) ([]v1.ContainerImage, error) {
		images, err := o.Runtime.Images.ListImages(ctx, nil)
		return node.ContainerImages(images), err
	}
	return reporter
}

// Node returns the API server's last known version of the node, with its wanted status. It must not be changed.
func (c *Cluster) Node() *v1.Node { return c.node.Node() }

// RefreshNode gets the node from the API server. If that fails, err has the reason and current is the last known
// version. Known is false before the registration: current then has only this machine's own labels. After a deletion
// and without a cluster known is true.
func (c *Cluster) RefreshNode(ctx context.Context) (current *v1.Node, known bool, err error) {
	if c.conn == nil {
		return c.node.Node(), true, nil
	}
	current, err = c.node.Refresh(ctx)
	select {
	case <-c.node.Registered():
		known = true
	default:
	}
	return current, known, err
}

// WakeNodeStatus starts a check of the node's status, because a condition may have changed. It does not wait.
func (c *Cluster) WakeNodeStatus() { c.node.Wake() }

// registeredNode returns the API server's node, or nil. A deleted node must own no new objects, because the garbage
// collector would remove them at once.
func (c *Cluster) registeredNode() *v1.Node {
	if !c.node.Exists() {
		return nil
	}
	return c.node.Node()
}
