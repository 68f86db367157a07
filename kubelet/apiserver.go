package kubelet

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cluster"
	"github.com/criadapter/criadapter/kubelet/config"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/mirror"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/objects"
	"github.com/criadapter/criadapter/kubelet/report"
	"github.com/criadapter/criadapter/kubelet/services"
	"github.com/criadapter/criadapter/kubelet/token"
)

// userAgent is how the API server knows this program.
const userAgent = "kubelet-core"

// apiServer is what a kubelet in a cluster has beyond one on its own: what it asks the API server for, and tells it. All
// of it goes on without the server, and catches up when that is back.
type apiServer struct {
	clients  *cluster.Clients
	objects  *objects.Server
	services *services.List
	tokens   *token.Manager
	statuses *report.Statuses
	sink     *report.EventSink
	mirrors  *mirror.Mirrors
}

// newAPIServer wires the parts. Nothing is sent yet.
func (k *Kubelet) newAPIServer() error {
	if k.opts.Cluster.Kubeconfig == "" {
		return nil
	}
	clients, err := cluster.Connect(k.opts.Cluster.Kubeconfig, userAgent)
	if err != nil {
		return err
	}
	s := &apiServer{
		clients:  clients,
		objects:  objects.New(objects.Options{Core: clients.Watch}),
		services: services.New(clients.Watch),
		tokens:   token.New(token.Options{ServiceAccounts: clients.Core}),
		sink:     report.NewEvents(report.EventOptions{Events: clients.Core}),
	}
	s.statuses = report.NewStatuses(report.StatusOptions{Pods: clients.Core, Store: k.status, Finished: k.finished})
	s.mirrors = mirror.New(mirror.Options{
		Pods: clients.Core, Node: k.registeredNode, Problem: k.mirrorProblem,
	})
	k.events.SetSink(s.sink.Record)
	k.server = s
	return nil
}

// run works until ctx ends.
func (s *apiServer) run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	for _, part := range []func(context.Context) error{s.objects.Run, s.services.Run, s.statuses.Run, s.sink.Run, s.mirrors.Run} {
		parts.Go(func() { _ = part(ctx) }) // they end with ctx, and have no other end
	}
	return nil
}

// saw hands on what the API server has of a pod.
func (s *apiServer) saw(update config.Update, pod *v1.Pod) {
	if update.Source == model.SourceAPI && update.Op != config.Remove {
		s.statuses.Saw(pod)
	}
}

// track has the objects watched that a pod names. Those of a pod that has ended are not: nobody would end the watches.
func (k *Kubelet) track(pod *v1.Pod) {
	if k.server == nil {
		return
	}
	k.server.objects.Track(pod)
	if k.workers.Finished(pod.UID) {
		k.server.objects.Forget(pod.UID)
	}
}

// followMirrors hands on the mirror pods that there are and that there should be.
func (k *Kubelet) followMirrors() {
	if k.server == nil {
		return
	}
	mirrors := k.mux.Mirrors()
	k.server.mirrors.Seen(mirrors)
	k.server.statuses.SawMirrors(mirrors)
	if !k.mux.Spoke(model.SourceAPI) {
		return // which mirrors there are is not known yet
	}
	k.server.mirrors.Want(k.shown())
	if k.mux.Ready() {
		k.server.mirrors.Complete()
	}
}

// shown are the pods that the cluster is to see, one per full name: those that are worked on, then those rejected.
func (k *Kubelet) shown() []*v1.Pod {
	pods := k.workers.Holders()
	names := map[string]bool{}
	for _, pod := range pods {
		names[model.FullName(pod)] = true
	}
	for _, pod := range k.rejected.list() {
		if !names[model.FullName(pod)] {
			pods = append(pods, pod)
		}
	}
	return pods
}

// mirrorProblem shows why the cluster cannot see a static pod.
func (k *Kubelet) mirrorProblem(fullName string, static *v1.Pod, err error) {
	if static == nil {
		k.record(true, "MirrorProblem", fmt.Sprintf("%s: %v", fullName, err))
		return
	}
	k.events.Record(events.Event{Pod: static, Warning: true, Reason: "MirrorProblem", Message: err.Error()})
}

// registeredNode is this node as the API server knows it, nil as long as it does not: what belongs to a deleted node would
// be collected there as often as it was made.
func (k *Kubelet) registeredNode() *v1.Node {
	if !k.node.Exists() {
		return nil
	}
	return k.node.Node()
}

// finished says whether nothing is left of a pod, or never was anything. The workers are made after who asks.
func (k *Kubelet) finished(uid types.UID) bool {
	if k.exists(uid) {
		return k.workers.Finished(uid)
	}
	pod := k.pleg.Pods()[uid]
	return k.rejected.has(uid) && (pod == nil || !pod.Running())
}

// ended is told of each pod of which nothing is left.
func (k *Kubelet) ended(pod *v1.Pod) {
	if k.server != nil {
		k.server.objects.Forget(pod.UID)
		k.server.statuses.Wake(pod.UID)
	}
}

// runAPISource tells the API server's pods once the node is registered: nobody binds pods to it before.
func (k *Kubelet) runAPISource(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.node.Registered():
	}
	return config.NewAPI(config.APIOptions{
		Pods: k.server.clients.Watch, NodeName: k.opts.NodeName, Problem: k.problem("APIServer"),
	}, k.mux).Run(ctx)
}

// problem makes a function that records what is wrong with a source, and that it is right again.
func (k *Kubelet) problem(what string) func(where string, err error) {
	return func(where string, err error) {
		if err == nil {
			k.record(false, what+"Recovered", where+" is right again")
			return
		}
		k.record(true, what+"Problem", fmt.Sprintf("%s: %v", where, err))
	}
}
