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
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// userAgent is this program's name in the API server's logs.
const userAgent = "kubelet-core"

// Options configure a Cluster. All but Kubeconfig are required.
type Options struct {
	// Kubeconfig is the file with the API server's address and this node's credentials. Empty means no cluster.
	Kubeconfig string
	// Node describes this machine.
	Node NodeOptions
	// Runtime and its State are this machine's. PLEGErr returns why the PLEG has no current pods, or nil.
	Runtime *cri.Runtime
	State   *cri.State
	PLEGErr func() error
	// Static has the config maps and secrets of static pods.
	Static volumekinds.Objects
	Status *status.Manager
	Events *events.Recorder
}

// Cluster is the kubelet's access to the API server. A kubelet without a cluster has a Cluster, too. That Cluster
// describes the node and has the objects of static pods. It calls no server. A Cluster is safe for concurrent use.
type Cluster struct {
	opts Options
	node *node.Reporter
	conn *connection // nil without a cluster
}

// connection has the parts that need an API server.
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
	c.node, err = node.New(opts.reporter(clients))
	return c, err
}

func (c *Cluster) connect(clients *connect.Clients) {
	c.conn = &connection{
		clients:  clients,
		objects:  objects.New(objects.Options{Core: clients.Watch}),
		services: services.New(clients.Watch),
		tokens:   token.New(token.Options{ServiceAccounts: clients.Core}),
		statuses: report.NewStatusSyncer(report.StatusOptions{Pods: clients.Core, Store: c.opts.Status}),
		events:   report.NewEvents(report.EventOptions{Events: clients.Core}),
		mirrorPods: mirrorpod.New(mirrorpod.Options{
			Pods: clients.Core, Node: c.registeredNode, Problem: c.mirrorPodProblem,
		}),
		reviewer: review.New(clients.Authentication, clients.Authorization),
		classes:  runtimeclass.New(clients.Node),
	}
	c.opts.Events.SetSink(c.conn.events.Record)
}

// Run runs the node's reporter and the parts of the connection until ctx ends, and then returns nil. Finished reports
// whether nothing of a pod is left on this node. Then the API server may remove the pod.
func (c *Cluster) Run(ctx context.Context, finished func(types.UID) bool) error {
	if c.conn == nil {
		return c.node.Run(ctx)
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	statuses := func(ctx context.Context) error { return c.conn.statuses.Run(ctx, finished) }
	for _, part := range []func(context.Context) error{
		c.conn.objects.Run, c.conn.services.Run, statuses, c.conn.events.Run, c.conn.mirrorPods.Run,
	} {
		parts.Go(func() { _ = part(ctx) }) // each part ends only with ctx
	}
	return c.node.Run(ctx)
}

// RunPodSource passes the API server's pods to config until ctx ends. It starts when the node is registered, since the
// scheduler binds no pods to an unregistered node.
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

// Objects returns the config maps and secrets that pods see. Static pods see objects of manifests, and other pods see
// objects of the API server.
func (c *Cluster) Objects() volumekinds.Objects {
	if c.conn == nil {
		return c.opts.Static
	}
	return objects.ByOrigin(c.opts.Static, c.conn.objects)
}

// ObjectsChanged receives changed config maps and secrets of the API server. It has one reader, and is nil without a
// cluster.
func (c *Cluster) ObjectsChanged() <-chan map[volumekinds.Object]bool {
	if c.conn == nil {
		return nil
	}
	return c.conn.objects.Changed()
}

// Reviewer authenticates and authorizes clients of the kubelet's API. It is nil without a cluster.
func (c *Cluster) Reviewer() *review.Reviewer {
	if c.conn == nil {
		return nil
	}
	return c.conn.reviewer
}

// Tokens returns the service account tokens, or nil without a cluster.
func (c *Cluster) Tokens() volumekinds.Tokens {
	if c.conn == nil {
		return nil
	}
	return c.conn.tokens
}

// ServiceEnvironment returns the function that makes service variables for a pod, or nil without a cluster.
func (c *Cluster) ServiceEnvironment() func(*v1.Pod) (map[string]string, error) {
	if c.conn == nil {
		return nil
	}
	return c.conn.services.Environment
}

// RuntimeHandler returns the runtime handler of a RuntimeClass. Without a cluster the name is the handler.
func (c *Cluster) RuntimeHandler(ctx context.Context, class string) (string, error) {
	if c.conn == nil {
		return class, nil
	}
	return c.conn.classes.Handler(ctx, class)
}

// EventCounts returns a function that counts events by outcome, or nil without a cluster.
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

// ObservePod is called with each new version of a pod on the API server.
func (c *Cluster) ObservePod(pod *v1.Pod) {
	if c.conn != nil {
		c.conn.statuses.ObservePod(pod)
	}
}

// TrackObjects watches the objects that a pod names, unless the pod has finished: watches for a finished pod would
// never end.
func (c *Cluster) TrackObjects(pod *v1.Pod, finished func(types.UID) bool) {
	if c.conn == nil {
		return
	}
	c.conn.objects.RegisterPod(pod)
	if finished(pod.UID) {
		c.conn.objects.UnregisterPod(pod.UID)
	}
}

// PodFinished ends the watches for a finished pod and lets the API server remove it.
func (c *Cluster) PodFinished(pod *v1.Pod) {
	if c.conn != nil {
		c.conn.objects.UnregisterPod(pod.UID)
		c.conn.statuses.Wake(pod.UID)
	}
}

// PodAgain watches the objects of a pod that begins anew with the UID of a finished pod. PodFinished has ended these
// watches.
func (c *Cluster) PodAgain(pod *v1.Pod) {
	if c.conn != nil {
		c.conn.objects.RegisterPod(pod)
	}
}

// PodConfig lists the mirror pods. *podconfig.PodConfig implements it.
type PodConfig interface {
	MirrorPods() []*v1.Pod
	SeenSource(source string) bool
	Settled() bool
}

// ReconcileMirrorPods creates a mirror pod for each static pod and removes other mirror pods. Shown lists the pods that
// the cluster should see, one per full name. Only the goroutine that handles the updates of config may call it.
func (c *Cluster) ReconcileMirrorPods(config PodConfig, shown func() []*v1.Pod) {
	if c.conn == nil {
		return
	}
	// SeenSource is called before MirrorPods. Otherwise all mirror pods would look missing if the API server's first
	// list came in between.
	seen := config.SeenSource(model.SourceAPI)
	mirrorPods := config.MirrorPods()
	c.conn.mirrorPods.SetMirrorPods(mirrorPods)
	c.conn.statuses.ObserveMirrorPods(mirrorPods)
	if !seen {
		return // the API server has not listed its mirror pods yet
	}
	c.conn.mirrorPods.SetStaticPods(shown())
	if config.Settled() {
		c.conn.mirrorPods.SetSourcesReady()
	}
}

// mirrorPodProblem records an event with the reason why a mirror pod could not be synced. Static is nil if the static
// pod is gone.
func (c *Cluster) mirrorPodProblem(fullName string, static *v1.Pod, err error) {
	message := err.Error()
	if static == nil {
		message = fmt.Sprintf("%s: %v", fullName, err)
	}
	c.opts.Events.Warn(static, "MirrorProblem", message)
}
