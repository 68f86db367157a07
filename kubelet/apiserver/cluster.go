package apiserver

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/kubelet/apiserver/mirrorpod"
	"github.com/criadapter/criadapter/kubelet/apiserver/node"
	"github.com/criadapter/criadapter/kubelet/apiserver/objects"
	"github.com/criadapter/criadapter/kubelet/apiserver/podsource"
	"github.com/criadapter/criadapter/kubelet/apiserver/report"
	"github.com/criadapter/criadapter/kubelet/apiserver/review"
	"github.com/criadapter/criadapter/kubelet/apiserver/runtimeclass"
	"github.com/criadapter/criadapter/kubelet/apiserver/services"
	"github.com/criadapter/criadapter/kubelet/apiserver/token"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// userAgent is how the API server knows this program.
const userAgent = "kubelet-core"

// Options configure a Cluster. All but Kubeconfig are required.
type Options struct {
	// Kubeconfig is the file that says where the API server is and who this node is; empty for a node on its own.
	Kubeconfig string
	// Node describes this machine.
	Node NodeOptions
	// Static has the config maps and secrets of static pods.
	Static volumekinds.Objects
	Status *status.Manager
	Events *events.Recorder
	// Finished says whether nothing is left of a pod, or never was anything, so that the server may forget it.
	Finished func(types.UID) bool
	// Shown lists the pods that the cluster is to see, one per full name.
	Shown func() []*v1.Pod
}

// Cluster is what a kubelet in a cluster asks of the API server, and reports to it. A kubelet without a cluster has
// one, too: its methods then do nothing, but for the description of the node. It is safe for concurrent use.
type Cluster struct {
	opts Options
	node *node.Reporter
	conn *connection // nil without a cluster
}

// connection is what needs an API server.
type connection struct {
	clients    *connect.Clients
	objects    *objects.Manager
	services   *services.List
	tokens     *token.Manager
	statuses   *report.StatusSyncer
	events     *report.EventSink
	mirrorPods *mirrorpod.Manager
	reviewer   *review.Reviewer
	classes    *runtimeclass.Manager
}

// New reads the kubeconfig file and wires the parts. Nothing is sent before Run.
func New(opts Options) (*Cluster, error) {
	c := &Cluster{opts: opts}
	var clients *connect.Clients
	if opts.Kubeconfig != "" {
		var err error
		if clients, err = connect.Connect(opts.Kubeconfig, userAgent); err != nil {
			return nil, err
		}
		c.connect(clients)
	}
	var err error
	c.node, err = node.New(opts.Node.reporter(clients, opts.Events))
	return c, err
}

func (c *Cluster) connect(clients *connect.Clients) {
	c.conn = &connection{
		clients:  clients,
		objects:  objects.New(objects.Options{Core: clients.Watch}),
		services: services.New(clients.Watch),
		tokens:   token.New(token.Options{ServiceAccounts: clients.Core}),
		statuses: report.NewStatusSyncer(report.StatusOptions{Pods: clients.Core, Store: c.opts.Status, Finished: c.opts.Finished}),
		events:   report.NewEvents(report.EventOptions{Events: clients.Core}),
		mirrorPods: mirrorpod.New(mirrorpod.Options{
			Pods: clients.Core, Node: c.registeredNode, Problem: c.mirrorPodProblem,
		}),
		reviewer: review.New(clients.Authentication, clients.Authorization),
		classes:  runtimeclass.New(clients.Node),
	}
	c.opts.Events.SetSink(c.conn.events.Record)
}

// Run works until ctx ends, and returns nil then.
func (c *Cluster) Run(ctx context.Context) error {
	if c.conn == nil {
		return nil
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	for _, part := range []func(context.Context) error{
		c.conn.objects.Run, c.conn.services.Run, c.conn.statuses.Run, c.conn.events.Run, c.conn.mirrorPods.Run,
	} {
		parts.Go(func() { _ = part(ctx) }) // they end with ctx, and have no other end
	}
	return c.node.Run(ctx)
}

// RunPodSource sets the API server's pods once the node is registered, until ctx ends: nobody binds pods to it before.
func (c *Cluster) RunPodSource(ctx context.Context, config podsource.PodConfig) error {
	if c.conn == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-c.node.Registered():
	}
	return podsource.New(podsource.Options{
		Pods: c.conn.clients.Watch, NodeName: c.opts.Node.Name, Problem: c.opts.Events.SourceProblem("APIServer"),
	}, config).Run(ctx)
}

// Objects are the config maps and secrets that each pod sees: a static pod those of the manifests, others the server's.
func (c *Cluster) Objects() volumekinds.Objects {
	if c.conn == nil {
		return c.opts.Static
	}
	return objects.ByOrigin(c.opts.Static, c.conn.objects)
}

// ObjectsChanged receives the server's config maps and secrets that changed. It has one reader, and is nil without a
// cluster.
func (c *Cluster) ObjectsChanged() <-chan map[volumekinds.Object]bool {
	if c.conn == nil {
		return nil
	}
	return c.conn.objects.Changed()
}

// Reviewer says who the clients of the kubelet's API are and what they may do; it is nil without a cluster.
func (c *Cluster) Reviewer() *review.Reviewer {
	if c.conn == nil {
		return nil
	}
	return c.conn.reviewer
}

// Tokens are the service account tokens, nil without a cluster.
func (c *Cluster) Tokens() volumekinds.Tokens {
	if c.conn == nil {
		return nil
	}
	return c.conn.tokens
}

// ServiceEnvironment makes the variables that name the services of a pod's namespace; it is nil without a cluster.
func (c *Cluster) ServiceEnvironment() func(*v1.Pod) (map[string]string, error) {
	if c.conn == nil {
		return nil
	}
	return c.conn.services.Environment
}

// RuntimeHandler is the runtime handler of a RuntimeClass. Without a cluster there are no classes: the name is the
// handler's.
func (c *Cluster) RuntimeHandler(ctx context.Context, class string) (string, error) {
	if c.conn == nil {
		return class, nil
	}
	return c.conn.classes.Handler(ctx, class)
}

// EventCounts counts the events for the server by what became of them; it is nil without a cluster.
func (c *Cluster) EventCounts() func() map[string]int64 {
	if c.conn == nil {
		return nil
	}
	return func() map[string]int64 {
		counts := c.conn.events.Counts()
		return map[string]int64{
			"sent": counts.Sent, "suppressed": counts.Suppressed, "dropped": counts.Dropped, "refused": counts.Refused,
		}
	}
}

// ObservePod takes a pod as the server has it now.
func (c *Cluster) ObservePod(pod *v1.Pod) {
	if c.conn != nil {
		c.conn.statuses.ObservePod(pod)
	}
}

// TrackObjects has the objects watched that a pod names. Those of a pod that has ended are not: nobody would end the
// watches.
func (c *Cluster) TrackObjects(pod *v1.Pod) {
	if c.conn == nil {
		return
	}
	c.conn.objects.RegisterPod(pod)
	if c.opts.Finished(pod.UID) {
		c.conn.objects.UnregisterPod(pod.UID)
	}
}

// PodFinished ends what is done for a pod of which nothing is left, and has the server forget it.
func (c *Cluster) PodFinished(pod *v1.Pod) {
	if c.conn != nil {
		c.conn.objects.UnregisterPod(pod.UID)
		c.conn.statuses.Wake(pod.UID)
	}
}

// PodConfig has the mirror pods that there are; *podconfig.PodConfig is one.
type PodConfig interface {
	MirrorPods() []*v1.Pod
	SeenSource(source string) bool
	Settled() bool
}

// ReconcileMirrorPods has a mirror pod made for each static pod, and those removed that have none any more.
// Only the goroutine that handles the updates of config may call it.
func (c *Cluster) ReconcileMirrorPods(config PodConfig) {
	if c.conn == nil {
		return
	}
	// Asked before the mirror pods are listed: a source that lists its first pods in between would make all mirror pods
	// look missing.
	seen := config.SeenSource(model.SourceAPI)
	mirrorPods := config.MirrorPods()
	c.conn.mirrorPods.SetMirrorPods(mirrorPods)
	c.conn.statuses.ObserveMirrorPods(mirrorPods)
	if !seen {
		return // which mirror pods there are is not known yet
	}
	c.conn.mirrorPods.SetStaticPods(c.opts.Shown())
	if config.Settled() {
		c.conn.mirrorPods.SetSourcesReady()
	}
}

// mirrorPodProblem shows why the cluster cannot see a static pod; static is nil when that is gone.
func (c *Cluster) mirrorPodProblem(fullName string, static *v1.Pod, err error) {
	message := err.Error()
	if static == nil {
		message = fmt.Sprintf("%s: %v", fullName, err)
	}
	c.opts.Events.Record(events.Event{Pod: static, Warning: true, Reason: "MirrorProblem", Message: message})
}
