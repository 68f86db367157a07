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
	// Name is the node's name. IPs are its addresses, the primary one first.
	Name string
	IPs  []string
	// Labels and Taints are set when the node is registered.
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is the limit of pods on the node. Reserved resources are not available to pods.
	MaxPods  int
	Reserved v1.ResourceList
	// StatusEvery is the time between two checks of the node's status.
	StatusEvery time.Duration
	// Port is the port of the kubelet's API, zero for none.
	Port int32
	// RootDir is a directory on the filesystem of the pods' files.
	RootDir string
	// Pressure and Kept are the eviction manager's answers, as in node.Options.
	Pressure func(kind v1.NodeConditionType) (bool, error)
	Kept     func(capacity v1.ResourceList) v1.ResourceList
	// ShutdownErr returns an error during a shutdown of the node.
	ShutdownErr func() error
	// Devices returns the resources of device plugins.
	Devices func() (capacity, allocatable v1.ResourceList)
	// Runtime and its State are required. PLEGErr returns why the PLEG has no current pods, or nil.
	Runtime *cri.Runtime
	State   *cri.State
	PLEGErr func() error
}

// reporter returns the options of the node's reporter. Without clients the reporter only describes the node, for
// admission.
func (o NodeOptions) reporter(clients *connect.Clients, recorder *events.Recorder) node.Options {
	return node.Options{
		Clients: clients, Name: o.Name, IPs: o.IPs, Labels: o.Labels, Taints: o.Taints,
		MaxPods: o.MaxPods, Reserved: o.Reserved, StatusEvery: o.StatusEvery,
		Port: o.Port, RootDir: o.RootDir, Pressure: o.Pressure, Kept: o.Kept,
		RuntimeVersion: func() string { return o.Runtime.Name + "://" + o.Runtime.Version },
		RuntimeErr:     func() error { return errors.Join(o.State.Runtime(), o.PLEGErr()) },
		NetworkErr:     o.State.Network,
		ShutdownErr:    o.ShutdownErr, Devices: o.Devices,
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
