package admission

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
)

// refreshTimeout bounds the call of RefreshNode.
const refreshTimeout = 2 * time.Second

// Node is this node. *apiserver.Cluster implements it.
type Node interface {
	// Node returns the last observed node.
	Node() *v1.Node
	// RefreshNode gets the node from the API server. If the request fails, it returns the last observed node with the
	// error. Known is false before the node's registration: the last observed node then has only this machine's own
	// labels.
	RefreshNode(ctx context.Context) (node *v1.Node, known bool, err error)
}

// Options configure an Admitter. All but AllowedUnsafeSysctls are required.
type Options struct {
	Node Node
	// Active lists the admitted pods that are to run.
	Active func() []*v1.Pod
	// Observed reports whether the runtime has the pod.
	Observed func(types.UID) bool
	// ShutdownErr returns an error while the node is shutting down, and nil otherwise.
	ShutdownErr func() error
	// Preempt begins to end a pod.
	Preempt func(pod *v1.Pod, why model.Failure)
	// AllowedUnsafeSysctls are names, or prefixes that end in *, of unsafe sysctls that pods may set.
	AllowedUnsafeSysctls []string

	Rejections *Rejections
	Status     *status.Manager
	Events     *events.Recorder
}

// Admitter checks pods as they come, and sets the status of rejected ones. Only one goroutine may use it.
type Admitter struct {
	opts Options
}

// NewAdmitter makes an Admitter.
func NewAdmitter(opts Options) *Admitter { return &Admitter{opts: opts} }

// Sort sorts pods in the order of admission: pods that were admitted before, then the oldest.
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

// Admit reports whether the node admits a pod. A rejected pod never starts. Reject sets its status.
func (a *Admitter) Admit(ctx context.Context, pod *v1.Pod) bool {
	if model.Terminal(pod.Status.Phase) {
		return true
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
	if rejection == nil || a.preempt(in, *rejection) {
		return true
	}
	a.Reject(pod, *rejection)
	return false
}

// preempt ends other pods for a critical pod that was rejected because a resource is short. It reports whether the pod
// then fits.
func (a *Admitter) preempt(in input, why Rejection) bool {
	if !model.IsCritical(in.Pod) || !strings.HasPrefix(why.Reason, prefixOutOf) {
		return false
	}
	in = in.withDefaults()
	missing := shortages(&in)
	chosen, ok := victims(in.Pod, in.others(), missing)
	if !ok {
		return false
	}
	without := in
	without.Running = slices.DeleteFunc(slices.Clone(in.Running), func(pod *v1.Pod) bool {
		return slices.ContainsFunc(chosen, func(victim *v1.Pod) bool { return victim.UID == pod.UID })
	})
	if check(without) != nil { // the pod would be rejected for another reason
		return false
	}
	for _, victim := range chosen {
		a.opts.Events.Warn(victim, preempted.Reason, preempted.Message)
		a.opts.Preempt(victim, preempted)
	}
	return true
}

// newestNode gets the node from the API server, or the last observed node if the request fails. Admitted is true if the
// request fails before the node's registration and the pod is not static. The caller then trusts the scheduler about
// the node's labels and taints.
func (a *Admitter) newestNode(ctx context.Context, in input) (node *v1.Node, admitted bool) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	node, known, err := a.opts.Node.RefreshNode(ctx)
	return node, err != nil && !known && !model.IsStatic(in.Pod)
}

// Resize decides whether the pod's desired resources fit the node beside the allocated resources of other pods. It
// returns nil or the condition PodResizePending. Its reason is Infeasible if the resources would not fit the empty
// node.
func (a *Admitter) Resize(pod *v1.Pod) *v1.PodCondition {
	in := input{Node: a.opts.Node.Node(), Running: a.running(), Pod: pod}
	if in.Node == nil {
		return pendingResize(v1.PodReasonDeferred, "The node is not known yet.")
	}
	rejection := checkResources(&in)
	if rejection == nil {
		return nil
	}
	in.Running = nil
	if alone := checkResources(&in); alone != nil {
		return pendingResize(v1.PodReasonInfeasible, alone.Message)
	}
	return pendingResize(v1.PodReasonDeferred, rejection.Message)
}

func pendingResize(reason, message string) *v1.PodCondition {
	return &v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason, Message: message}
}

// Reject gives a pod the status Failed, and keeps it from starting. A controller's pod with an unsupported field stays
// Pending: failing it would only trigger a replacement, which the scheduler may bind to this node again.
func (a *Admitter) Reject(pod *v1.Pod, why Rejection) {
	a.opts.Rejections.add(pod)
	shown := status.Rejected(pod, why.Reason, why.Message, time.Now())
	if why.Reason == ReasonUnsupported && metav1.GetControllerOf(pod) != nil {
		shown = status.Held(pod, why.Reason, why.Message)
	}
	a.opts.Status.Set(pod, shown)
	a.opts.Events.Warn(pod, why.Reason, why.Message)
}

// AdmittedBefore reports whether an earlier process admitted the pod: the runtime has it, or the API server has its
// start time.
func (a *Admitter) AdmittedBefore(pod *v1.Pod) bool {
	return a.opts.Observed(pod.UID) || pod.Status.StartTime != nil
}

// running returns the active pods without a terminal phase.
func (a *Admitter) running() []*v1.Pod {
	return slices.DeleteFunc(a.opts.Active(), func(pod *v1.Pod) bool {
		return model.Terminal(a.opts.Status.Status(pod).Phase)
	})
}
