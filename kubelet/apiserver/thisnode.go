package apiserver

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/kubelet/apiserver/node"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
)

// NodeOptions describe this machine. Zero values are the kubelet's defaults, see node.Options.
type NodeOptions struct {
	// Name of the node, IPs its addresses, the primary one first.
	Name string
	IPs  []string
	// Labels and Taints are those that a new node is registered with.
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is how many pods the node takes. Reserved is what is kept from them.
	MaxPods  int
	Reserved v1.ResourceList
	// StatusEvery is how often the node's status is looked at.
	StatusEvery time.Duration
	// Port is that of the kubelet's API, zero for none.
	Port int32
	// RootDir is in the filesystem of the pods' files.
	RootDir string
	// Pressure and Kept are what eviction knows of memory and disk, as in node.Options.
	Pressure func(kind v1.NodeConditionType) (bool, error)
	Kept     func(capacity v1.ResourceList) v1.ResourceList
	// ShutdownErr says that the node is being shut down.
	ShutdownErr func() error
	// Runtime and its State are required. PLEGErr is why the runtime's pods are not known, nil when they are.
	Runtime *cri.Runtime
	State   *cri.State
	PLEGErr func() error
}

// reporter are the options of the node's reporter. Without clients the description serves the admission of pods alone.
func (o NodeOptions) reporter(clients *connect.Clients, recorder *events.Recorder) node.Options {
	return node.Options{
		Clients: clients, Name: o.Name, IPs: o.IPs, Labels: o.Labels, Taints: o.Taints,
		MaxPods: o.MaxPods, Reserved: o.Reserved, StatusEvery: o.StatusEvery,
		Port: o.Port, RootDir: o.RootDir, Pressure: o.Pressure, Kept: o.Kept,
		RuntimeVersion: func() string { return o.Runtime.Name + "://" + o.Runtime.Version },
		RuntimeErr:     func() error { return errors.Join(o.State.Runtime(), o.PLEGErr()) },
		NetworkErr:     o.State.Network,
		ShutdownErr:    o.ShutdownErr,
		Features: func() ([]v1.NodeRuntimeHandler, *v1.NodeFeatures) {
			return node.RuntimeFeatures(o.State.Last())
		},
		Images: func(ctx context.Context) ([]v1.ContainerImage, error) {
			images, err := o.Runtime.Images.ListImages(ctx, nil)
			return node.ContainerImages(images), err
		},
		Event: recorder.RecordNode,
	}
}

// Node is this node as the server had it last, with the status that it is to have. It must not be changed.
func (c *Cluster) Node() *v1.Node { return c.node.Node() }

// RefreshNode asks the server for the node. When the server is away, err says so and node is as the server had it last;
// known is false while the server has never had it. Without a cluster the node is known as it is.
func (c *Cluster) RefreshNode(ctx context.Context) (current *v1.Node, known bool, err error) {
	if c.conn == nil {
		return c.node.Node(), true, nil
	}
	current, err = c.node.Refresh(ctx)
	return current, c.registeredNode() != nil, err
}

// WakeNodeStatus has the node's status looked at now: a condition may have changed. It does not wait.
func (c *Cluster) WakeNodeStatus() { c.node.Wake() }

// registeredNode is this node as the API server knows it, nil as long as it does not: what belongs to a deleted node
// would be collected there as often as it was made.
func (c *Cluster) registeredNode() *v1.Node {
	if !c.node.Exists() {
		return nil
	}
	return c.node.Node()
}
