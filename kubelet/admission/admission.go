package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Reasons for which a pod is refused, as its status shows them. A resource that is short gives OutOf and its name.
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

// ReasonUnsupported is not a kubelet's: the pod has a field that this core cannot honour, which the message names.
const ReasonUnsupported = "UnsupportedField"

// input is what the decision is made of. Nothing in it is changed.
type input struct {
	// Node is this node as it was observed last. Nil refuses every pod.
	Node *v1.Node
	// Running are the pods that the node has taken, with defaults set and without those whose containers have all ended
	// for good. Pod itself may be among them.
	Running []*v1.Pod
	// Pod is the one to decide on. Defaults are set on a copy: not every pod comes from a server.
	Pod *v1.Pod
	// Admitted says that the pod was taken before and this process only started again: labels, taints and pressure of
	// the node that came meanwhile are no reason to end it, nor are fields that it got meanwhile, as by kubectl debug.
	Admitted bool
	// AllowedSysctls are those that pods may set beyond the safe ones, as in Options.
	AllowedSysctls []string
	// Supported says which fields of the pod cannot be honoured. Nil means manifest.Validate.
	Supported func(*v1.Pod) error
}

// Rejection says why a pod is not taken.
type Rejection struct {
	// Reason is one word, Message a sentence.
	Reason, Message string
}

// Error makes a Rejection usable as an error.
func (r *Rejection) Error() string { return r.Reason + ": " + r.Message }

// check returns nil when the node takes the pod, or the first reason against it. What no free room would change is
// looked at first. A pod that fails with reasonNodeAffinity may have been bound for labels that are newer than
// input.Node: fetch the node and check once more.
func check(in input) *Rejection {
	if in.Node == nil {
		return &Rejection{reasonInvalidNodeInfo, "The node is not known yet."}
	}
	in.Pod = in.Pod.DeepCopy()
	manifest.SetDefaults(in.Pod)
	for _, check := range []func(*input) *Rejection{
		checkPressure, checkSystem, checkSysctls, checkSupported, checkResources, checkAffinity, checkPorts, checkTaints,
	} {
		if rejection := check(&in); rejection != nil {
			return rejection
		}
	}
	return nil
}

// checkSupported refuses what the core cannot honour.
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

// others are the pods beside the one to decide on that take up resources.
func (in *input) others() []*v1.Pod {
	var others []*v1.Pod
	for _, pod := range in.Running {
		if pod.UID != in.Pod.UID && !model.Terminal(pod.Status.Phase) {
			others = append(others, pod)
		}
	}
	return others
}

// predicate is the kubelet's message for everything but resources.
func predicate(reason, format string, args ...any) *Rejection {
	return &Rejection{reason, fmt.Sprintf("Predicate %s failed: %s", reason, fmt.Sprintf(format, args...))}
}
