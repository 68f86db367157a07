package node

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeCondition is the current value of a condition.
type nodeCondition struct {
	kind            v1.NodeConditionType
	status          v1.ConditionStatus
	reason, message string
}

// pressureKind has the kubelet's texts for a kind of pressure. The messages have no figures, since each change of a
// figure would be sent.
type pressureKind struct {
	kind                        v1.NodeConditionType
	shortReason, shortMessage   string
	enoughReason, enoughMessage string
}

var pressureKinds = []pressureKind{
	{v1.NodeMemoryPressure,
		"KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
	{v1.NodeDiskPressure,
		"KubeletHasDiskPressure", "kubelet has disk pressure",
		"KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
	{v1.NodePIDPressure,
		"KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available"},
}

// pressures returns the conditions for memory, disks and process ids.
func (r *Reporter) pressures() []nodeCondition {
	var conditions []nodeCondition
	for _, p := range pressureKinds {
		short, err := r.opts.Pressure(p.kind)
		switch {
		case err != nil:
			conditions = append(conditions,
				nodeCondition{p.kind, v1.ConditionUnknown, "KubeletCannotMeasure", err.Error()})
		case short:
			conditions = append(conditions, nodeCondition{p.kind, v1.ConditionTrue, p.shortReason, p.shortMessage})
		default:
			conditions = append(conditions, nodeCondition{p.kind, v1.ConditionFalse, p.enoughReason, p.enoughMessage})
		}
	}
	return conditions
}

// readiness returns the Ready condition, with every reason if the node cannot run pods.
func (r *Reporter) readiness(capacityErr error) nodeCondition {
	var why []string
	note := func(what string, err error) {
		if err != nil {
			why = append(why, what+": "+err.Error())
		}
	}
	note("container runtime not ready", ask(r.opts.RuntimeErr))
	note("container runtime network not ready", ask(r.opts.NetworkErr))
	note("missing node capacity", capacityErr)
	if err := ask(r.opts.ShutdownErr); err != nil {
		why = append(why, err.Error())
	}
	if len(why) == 0 {
		return nodeCondition{v1.NodeReady, v1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"}
	}
	return nodeCondition{v1.NodeReady, v1.ConditionFalse, "KubeletNotReady", strings.Join(why, "; ")}
}

func ask(why func() error) error {
	if why == nil {
		return nil
	}
	return why()
}

// withConditions replaces conditions of the same types and keeps all others. A condition's transition time changes only
// with its status.
func withConditions(status *v1.NodeStatus, conditions []nodeCondition, now time.Time) {
	list := slices.Clone(status.Conditions)
	for _, c := range conditions {
		next := v1.NodeCondition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		}
		i := slices.IndexFunc(list, func(old v1.NodeCondition) bool { return old.Type == c.kind })
		if i < 0 {
			list = append(list, next)
			continue
		}
		if list[i].Status == next.Status {
			next.LastTransitionTime = list[i].LastTransitionTime
		}
		list[i] = next
	}
	status.Conditions = list
}
