package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Reasons of rejections, as in the pod's status. The reason for a scarce resource is OutOf and the resource's name.
const (
	reasonOSLabel               = "PodOSSelectorNodeLabelDoesNotMatch"
	reasonOS                    = "PodOSNotSupported"
	reasonSupplementalGroups    = "SupplementalGroupsPolicyNotSupported"
	reasonInvalidNodeInfo       = "InvalidNodeInfo"
	reasonUnexpected            = "UnexpectedAdmissionError"
	reasonSysctl                = "SysctlForbidden"
	reasonNodeAffinity          = "NodeAffinity"
	reasonNodeName              = "NodeName"
	reasonNodePorts             = "NodePorts"
	reasonTaint                 = "TaintToleration"
	reasonOutOfCPU              = "OutOfcpu"
	reasonOutOfMemory           = "OutOfmemory"
	reasonOutOfEphemeralStorage = "OutOfephemeral-storage"
	reasonOutOfPods             = "OutOfpods"
	reasonNodeShutdown          = "NodeShutdown"
	prefixOutOf                 = "OutOf"
)

// ReasonUnsupported is not a kubelet's reason. The message names a field that this core does not support.
const ReasonUnsupported = "UnsupportedField"

// input has the arguments of check. check does not change them.
type input struct {
	// Node is the last observed state of this node. Nil rejects every pod.
	Node *v1.Node
	// Running are the admitted pods, with defaults set, without finished ones. Pod may be among them.
	Running []*v1.Pod
	// Pod is the pod to decide on. Static pods have no defaults yet.
	Pod *v1.Pod
	// Admitted says that an earlier process admitted the pod. check then ignores the node's pressure, features, labels
	// and taints. It also ignores unsupported fields: kubectl debug may have added them since.
	Admitted bool
	// AllowedSysctls is Options.AllowedUnsafeSysctls.
	AllowedSysctls []string
	// Supported returns an error that names the pod's unsupported fields. Nil means manifest.Validate.
	Supported func(*v1.Pod) error
}

// Rejection says why a pod is rejected.
type Rejection struct {
	// Reason is one word, Message a sentence.
	Reason, Message string
}

// Error returns the reason and the message.
func (r *Rejection) Error() string { return r.Reason + ": " + r.Message }

// check returns the first reason to reject the pod, or nil if the node admits it. After reasonNodeAffinity, fetch the
// node and check again: the scheduler may have seen newer labels than input.Node has.
func check(in input) *Rejection {
	if in.Node == nil {
		return &Rejection{reasonInvalidNodeInfo, "The node is not known yet."}
	}
	in = in.withDefaults()
	for _, check := range []func(*input) *Rejection{
		checkPressure, checkSystem, checkSysctls, checkSupported, checkResources, checkAffinity, checkPorts,
		checkTaints,
	} {
		if rejection := check(&in); rejection != nil {
			return rejection
		}
	}
	return nil
}

// withDefaults returns the input with defaults set on a copy of the pod.
func (in input) withDefaults() input {
	in.Pod = in.Pod.DeepCopy()
	manifest.SetDefaults(in.Pod)
	return in
}

// checkSupported rejects pods with unsupported fields.
func checkSupported(in *input) *Rejection {
	if in.Admitted {
		return nil
	}
	supported := in.Supported
	if supported == nil {
		supported = manifest.Validate
	}
	if err := supported(in.Pod); err != nil {
		return &Rejection{ReasonUnsupported, err.Error()}
	}
	return nil
}

// others returns the running pods, without the pod itself and without ended pods.
func (in *input) others() []*v1.Pod {
	var others []*v1.Pod
	for _, pod := range in.Running {
		if pod.UID != in.Pod.UID && !model.Terminal(pod.Status.Phase) {
			others = append(others, pod)
		}
	}
	return others
}

// predicate makes a rejection with the kubelet's message for failed predicates.
func predicate(reason, format string, args ...any) *Rejection {
	return &Rejection{reason, fmt.Sprintf("Predicate %s failed: %s", reason, fmt.Sprintf(format, args...))}
}
