package node

import (
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

// Options say what node this is. Name and IPs are required, Clients for Run; everything else has the kubelet's defaults.
type Options struct {
	// Clients reach the API server.
	Clients *connect.Clients
	// Name of the node, IPs its addresses, the primary one first.
	Name string
	IPs  []string

	// Labels and Taints are those that the node is registered with. A node that exists keeps its own.
	Labels map[string]string
	Taints []v1.Taint

	// MaxPods is how many pods the node takes. Zero means 110.
	MaxPods int
	// capacity is what the node has, beyond or other than what is found. Reserved is kept from pods, of what there is.
	capacity, Reserved v1.ResourceList
	// Port is that of the kubelet's API. Zero is none.
	Port int32
	// version of the kubelet. Empty means the Kubernetes release of the API that the program was built with.
	version string
	// RootDir is a directory of the filesystem with the pods' files. Empty means /.
	RootDir string
	// Pressure says whether the node is short of memory or disk, by the type of the condition; the error is why that is not
	// known. Kept is what has to stay free of a capacity lest it comes to that. Nil functions say no and nothing.
	Pressure func(kind v1.NodeConditionType) (bool, error)
	Kept     func(capacity v1.ResourceList) v1.ResourceList
	// pidPercent is the percentage of process ids that must be free, else there is PIDPressure; zero means 5. The kubelet
	// has no default for it, and so never reports that.
	pidPercent int64
	// pidTransition is how long PIDPressure is reported after it ended, so that the scheduler does not swing. Zero means 5
	// minutes.
	pidTransition time.Duration

	// RuntimeVersion is the runtime's, as name://version. Nil or empty means that it is not known.
	RuntimeVersion func() string
	// RuntimeErr and NetworkErr are why the runtime and its network cannot be used. Nil functions and errors mean
	// they can. They, RuntimeVersion, Features and Event answer from memory: the status waits for them.
	RuntimeErr, NetworkErr func() error
	// ShutdownErr says that the node is being shut down; nil functions and errors mean that it is not.
	ShutdownErr func() error
	// Features is what the runtime says of its handlers and of itself, see RuntimeFeatures. Nil means nothing.
	Features func() ([]v1.NodeRuntimeHandler, *v1.NodeFeatures)
	// Images lists the images, see ContainerImages. It is asked every 30 seconds at most. Nil means none are reported.
	Images func(ctx context.Context) ([]v1.ContainerImage, error)
	// Event is called when a condition changed, or that the machine was rebooted. Nil drops it.
	Event func(warning bool, reason, message string)

	// StatusEvery is how often the status is looked at; zero means 10 seconds. ReportEvery is how often it is sent
	// although nothing changed; zero means 5 minutes.
	StatusEvery, reportEvery time.Duration
	// leaseSeconds is how long the lease lasts; it is renewed four times as often. Zero means 40.
	leaseSeconds int32
}

// complete fills in the defaults and says which field is wrong.
func (o *Options) complete() error {
	setDefault(&o.MaxPods, 110)
	setDefault(&o.version, moduleVersion())
	setDefault(&o.RootDir, "/")
	setDefault(&o.pidPercent, 5)
	setDefault(&o.pidTransition, 5*time.Minute)
	setDefault(&o.StatusEvery, 10*time.Second)
	setDefault(&o.reportEvery, 5*time.Minute)
	setDefault(&o.leaseSeconds, 40)
	if o.Pressure == nil {
		o.Pressure = func(v1.NodeConditionType) (bool, error) { return false, nil }
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
			errs = append(errs, fmt.Errorf("%s: %q: %s: %w", field, value, strings.Join(messages, "; "), errdefs.ErrInvalidArgument))
		}
	}
	bad("name", o.Name, validation.IsDNS1123Subdomain(o.Name)...)
	if len(o.IPs) == 0 {
		bad("ips", "", "the node needs an address")
	}
	for _, ip := range o.IPs {
		if net.ParseIP(ip) == nil {
			bad("ips", ip, "it is no IP address")
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
			bad("taints["+taint.Key+"].effect", string(taint.Effect), "it is none of NoSchedule, PreferNoSchedule, NoExecute")
		}
	}
	for name, amount := range o.Reserved {
		if amount.Sign() < 0 {
			bad("reserved["+string(name)+"]", amount.String(), "it is negative")
		}
	}
	return errors.Join(errs...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
