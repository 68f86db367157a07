package admission

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
)

// refreshTimeout bounds how long a pod waits for the node's newest labels.
const refreshTimeout = 2 * time.Second

// Node is this node; *apiserver.Cluster is one.
type Node interface {
	// Node is the node as it was last observed.
	Node() *v1.Node
	// RefreshNode asks the API server for it. Known is false while that never had the node, and err says why it cannot
	// be asked.
	RefreshNode(ctx context.Context) (node *v1.Node, known bool, err error)
}

// Options configure an Admitter. All but AllowedUnsafeSysctls are required.
type Options struct {
	Node Node
	// Active lists the pods that the node has taken and that are to run.
	Active func() []*v1.Pod
	// Observed says whether the runtime shows something of a pod.
	Observed func(types.UID) bool
	// ShutdownErr says that the node is being shut down, nil that it is not.
	ShutdownErr func() error
	// AllowedUnsafeSysctls are names, or beginnings of names that end in *, which pods may set beyond the safe ones.
	AllowedUnsafeSysctls []string

	Rejections *Rejections
	Status     *status.Manager
	Events     *events.Recorder
}

// Admitter has check judge pods as they come, and shows those that the node does not take. One goroutine may use it.
type Admitter struct {
	opts Options
}

// NewAdmitter makes an Admitter.
func NewAdmitter(opts Options) *Admitter { return &Admitter{opts: opts} }

// Sort puts pods in the order in which they are admitted: those that were taken before, then the oldest.
func (a *Admitter) Sort(pods []*v1.Pod) {
	late := map[*v1.Pod]int{}
	for _, pod := range pods {
		if !a.AdmittedBefore(pod) {
			late[pod] = 1
		}
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(late[a]-late[b], a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
}

// Admit says whether the node takes a pod. One that it does not take has failed: it is shown so, and never started.
func (a *Admitter) Admit(ctx context.Context, pod *v1.Pod) bool {
	if model.Terminal(pod.Status.Phase) {
		return true // there is nothing to start
	}
	if a.opts.ShutdownErr() != nil {
		a.Reject(pod, Rejection{reasonNodeShutdown, "Pod was rejected as the node is shutting down."})
		return false
	}
	in := input{
		Node: a.opts.Node.Node(), Running: a.running(), Pod: pod, Admitted: a.AdmittedBefore(pod),
		AllowedSysctls: a.opts.AllowedUnsafeSysctls,
	}
	rejection := check(in)
	if rejection != nil && rejection.Reason == reasonNodeAffinity {
		in.Node, in.Admitted = a.newestNode(ctx, in)
		rejection = check(in)
	}
	if rejection == nil {
		return true
	}
	a.Reject(pod, *rejection)
	return false
}

// newestNode asks the server for the node; without the server it is as it was observed last. Admitted says that nobody
// here knows the node's labels yet, because the server was not there since the start: then the scheduler is believed
// that they suit the pod.
func (a *Admitter) newestNode(ctx context.Context, in input) (node *v1.Node, admitted bool) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	node, known, err := a.opts.Node.RefreshNode(ctx)
	return node, err != nil && !known && !model.IsStatic(in.Pod)
}

// Resize decides whether the node takes a pod with the resources that it asks for now beside the other pods with what
// these are allocated: nil, or the condition PodResizePending with its reason, which is Infeasible when no end of other
// pods would help.
func (a *Admitter) Resize(pod *v1.Pod) *v1.PodCondition {
	in := input{Node: a.opts.Node.Node(), Running: a.running(), Pod: pod}
	if in.Node == nil {
		return pendingResize(v1.PodReasonDeferred, "The node is not known yet.")
	}
	rejection := checkResources(&in)
	if rejection == nil {
		return nil
	}
	if in.Running = nil; checkResources(&in) != nil {
		return pendingResize(v1.PodReasonInfeasible, checkResources(&in).Message)
	}
	return pendingResize(v1.PodReasonDeferred, rejection.Message)
}

func pendingResize(reason, message string) *v1.PodCondition {
	return &v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason, Message: message}
}

// Reject shows a pod as failed, and remembers never to start it. A pod of a controller that has a field which this core
// cannot honour stays pending: for one that has failed the controller would make another at once, which the scheduler
// may bind to this node again, and so on for ever.
func (a *Admitter) Reject(pod *v1.Pod, why Rejection) {
	a.opts.Rejections.add(pod)
	shown := status.Rejected(pod, why.Reason, why.Message, time.Now())
	if why.Reason == ReasonUnsupported && metav1.GetControllerOf(pod) != nil {
		shown = status.Held(pod, why.Reason, why.Message)
	}
	a.opts.Status.Set(pod, shown)
	a.opts.Events.Record(events.Event{Pod: pod, Warning: true, Reason: why.Reason, Message: why.Message})
}

// AdmittedBefore says whether the pod was taken by an earlier process: then the runtime shows it, or the API server has
// the time at which it was taken.
func (a *Admitter) AdmittedBefore(pod *v1.Pod) bool {
	return a.opts.Observed(pod.UID) || pod.Status.StartTime != nil
}

// running are the active pods that have not ended.
func (a *Admitter) running() []*v1.Pod {
	return slices.DeleteFunc(a.opts.Active(), func(pod *v1.Pod) bool {
		return model.Terminal(a.opts.Status.Status(pod).Phase)
	})
}
