package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
)

// Options describe the node. Name and IPs are required, and Clients for Run. All other fields have defaults, which are
// the kubelet's unless noted.
type Options struct {
	// Clients reach the API server.
	Clients *connect.Clients
	// Name is the node's name. IPs returns its current addresses, the primary one first.
	Name string
	IPs  func() []string

	// Labels and Taints are set when the node is registered. An existing node keeps its own.
	Labels map[string]string
	Taints []v1.Taint

	// MaxPods is the limit of pods on the node. Zero means 110.
	MaxPods int
	// capacity adds to the detected capacity or overrides it. Reserved resources are not available to pods.
	capacity, Reserved v1.ResourceList
	// Devices returns the resources of device plugins, from memory. Nil means none.
	Devices func() (capacity, allocatable v1.ResourceList)
	// Port is the port of the kubelet's API. Zero means none.
	Port int32
	// version is the kubelet's version. Empty means the Kubernetes release of the linked API.
	version string
	// RootDir is a directory on the filesystem of the pods' files. Empty means /.
	RootDir string
	// Pressure reports whether the node is short of memory, disk or process ids, by the condition's type. It returns an
	// error if the signal cannot be read. Kept returns the part of a capacity that must stay free to avoid pressure.
	// Nil functions mean no pressure and nothing kept.
	Pressure func(kind v1.NodeConditionType) (bool, error)
	Kept     func(capacity v1.ResourceList) v1.ResourceList

	// RuntimeVersion returns the runtime as name://version. Nil or "" means unknown.
	RuntimeVersion func() string
	// RuntimeErr and NetworkErr return why the runtime and its network cannot be used. A nil function or error means
	// usable. RuntimeErr, NetworkErr, RuntimeVersion, Features and Event must answer from memory, because the status
	// waits for them.
	RuntimeErr, NetworkErr func() error
	// ShutdownErr returns an error during a shutdown of the node. A nil function or error means no shutdown.
	ShutdownErr func() error
	// Features returns the features of the runtime and its handlers, see RuntimeFeatures. Nil means none.
	Features func() ([]v1.NodeRuntimeHandler, *v1.NodeFeatures)
	// Images lists the images, see ContainerImages. It is called at most every 30 seconds. Nil means that no images are
	// reported.
	Images func(ctx context.Context) ([]v1.ContainerImage, error)
	// Event is called for a changed condition and for a reboot. Nil drops events.
	Event func(warning bool, reason, message string)

	// StatusEvery is the time between two checks of the status; zero means 10 seconds. reportEvery is the longest time
	// without sending it; zero means 5 minutes.
	StatusEvery, reportEvery time.Duration
	// leaseSeconds is the duration of the lease. The lease is renewed after each quarter of that time. Zero means 40.
	leaseSeconds int32
}

// complete sets the defaults. The error names each wrong field.
func (o *Options) complete() error {
	o.MaxPods = cmp.Or(o.MaxPods, 110)
	o.version = cmp.Or(o.version, moduleVersion())
	o.RootDir = cmp.Or(o.RootDir, "/")
	o.StatusEvery = cmp.Or(o.StatusEvery, 10*time.Second)
	o.reportEvery = cmp.Or(o.reportEvery, 5*time.Minute)
	o.leaseSeconds = cmp.Or(o.leaseSeconds, 40)
	if o.Pressure == nil {
		o.Pressure = func(v1.NodeConditionType) (bool, error) { return false, nil }
	}
	if o.Devices == nil {
		o.Devices = func() (capacity, allocatable v1.ResourceList) { return nil, nil }
	}
	if o.Kept == nil {
		o.Kept = func(v1.ResourceList) v1.ResourceList { return nil }
	}
	if o.Event == nil {
		o.Event = func(bool, string, string) {}
	}
	return o.validate()
}

func (o *Options) validate() error {
	var errs []error
	bad := func(field, value string, messages ...string) {
		if len(messages) > 0 {
			errs = append(errs,
				fmt.Errorf("%s: %q: %s: %w", field, value, strings.Join(messages, "; "), errdefs.ErrInvalidArgument))
		}
	}
	bad("name", o.Name, validation.IsDNS1123Subdomain(o.Name)...)
	var ips []string
	if o.IPs != nil {
		ips = o.IPs()
	}
	if len(ips) == 0 {
		bad("ips", "", "the node needs an address")
	}
	for _, ip := range ips {
		if net.ParseIP(ip) == nil {
			bad("ips", ip, "it is not an IP address")
		}
	}
	for key, value := range o.Labels {
		bad("labels", key, validation.IsQualifiedName(key)...)
		bad("labels["+key+"]", value, validation.IsValidLabelValue(value)...)
	}
	for _, taint := range o.Taints {
		bad("taints", taint.Key, validation.IsQualifiedName(taint.Key)...)
		bad("taints["+taint.Key+"].value", taint.Value, validation.IsValidLabelValue(taint.Value)...)
		switch taint.Effect {
		case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		default:
			bad("taints["+taint.Key+"].effect", string(taint.Effect),
				"it is not one of NoSchedule, PreferNoSchedule, NoExecute")
		}
	}
	for name, amount := range o.Reserved {
		if amount.Sign() < 0 {
			bad("reserved["+string(name)+"]", amount.String(), "it is negative")
		}
	}
	return errors.Join(errs...)
}
