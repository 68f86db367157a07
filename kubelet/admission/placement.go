package admission

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/criadapter/criadapter/kubelet/model"
)

// checkSystem compares the pod with the node's operating system and the runtime's features.
func checkSystem(in *input) *Rejection {
	if os, ok := in.Pod.Labels[v1.LabelOSStable]; ok && os != runtime.GOOS {
		return &Rejection{reasonOSLabel,
			fmt.Sprintf("The pod's label %s is %s, but this node's label is %s.", v1.LabelOSStable, os, runtime.GOOS)}
	}
	if os := in.Pod.Spec.OS; os != nil && string(os.Name) != runtime.GOOS {
		return &Rejection{reasonOS,
			fmt.Sprintf("The pod's spec.os.name is %s, but this node's operating system is %s.", os.Name, runtime.GOOS)}
	}
	if in.Admitted { // the runtime's features may not be known yet
		return nil
	}
	security, features := in.Pod.Spec.SecurityContext, in.Node.Status.Features
	if security == nil || security.SupplementalGroupsPolicy == nil ||
		*security.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	if features == nil || features.SupplementalGroupsPolicy == nil || !*features.SupplementalGroupsPolicy {
		return &Rejection{reasonSupplementalGroups,
			"spec.securityContext.supplementalGroupsPolicy Strict is not supported by this node's runtime."}
	}
	return nil
}

// checkAffinity checks spec.nodeSelector, the required node affinity and spec.nodeName.
func checkAffinity(in *input) *Rejection {
	if name := in.Pod.Spec.NodeName; name != "" && name != in.Node.Name {
		return predicate(reasonNodeName, "spec.nodeName is %s, but this node is %s", name, in.Node.Name)
	}
	if in.Admitted {
		return nil
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(in.Pod).Match(in.Node)
	if err != nil {
		return &Rejection{reasonUnexpected, fmt.Sprintf("spec.affinity.nodeAffinity: %v", err)}
	}
	if !matches {
		return predicate(reasonNodeAffinity, "node(s) didn't match Pod's node affinity/selector")
	}
	return nil
}

// checkTaints checks taints with the effect NoExecute; the scheduler checks the others. Static pods ignore taints.
func checkTaints(in *input) *Rejection {
	if in.Admitted || model.IsStatic(in.Pod) {
		return nil
	}
	for i := range in.Node.Spec.Taints {
		taint := &in.Node.Spec.Taints[i]
		if taint.Effect == v1.TaintEffectNoExecute && !tolerates(in.Pod, taint) {
			return predicate(reasonTaint, "node(s) had taints that the pod didn't tolerate: %s", taint.ToString())
		}
	}
	return nil
}

func tolerates(pod *v1.Pod, taint *v1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(one v1.Toleration) bool {
		return one.ToleratesTaint(logr.Discard(), taint, true)
	})
}

// checkPressure rejects pods while the node is under pressure. Under memory pressure alone checkPressure admits pods
// that are not BestEffort, and pods that tolerate the taint memory-pressure.
func checkPressure(in *input) *Rejection {
	if in.Admitted || model.IsCritical(in.Pod) {
		return nil
	}
	var short []v1.NodeConditionType
	for _, condition := range in.Node.Status.Conditions {
		switch condition.Type {
		case v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure:
			if condition.Status == v1.ConditionTrue {
				short = append(short, condition.Type)
			}
		}
	}
	if len(short) == 0 {
		return nil
	}
	if len(short) == 1 && short[0] == v1.NodeMemoryPressure {
		taint := &v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
		if model.QOS(in.Pod) != v1.PodQOSBestEffort || tolerates(in.Pod, taint) {
			return nil
		}
	}
	return &Rejection{model.ReasonEvicted, fmt.Sprintf("The node had condition: %v.", short)}
}
