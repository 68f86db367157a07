package model

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// RestartPolicyOf returns the restart policy of one container: its own, or the pod's.
func RestartPolicyOf(spec *v1.PodSpec, c *v1.Container) v1.ContainerRestartPolicy {
	return ptr.Deref(c.RestartPolicy, v1.ContainerRestartPolicy(spec.RestartPolicy))
}

// RestartsAfter reports whether an app or init container restarts after an exit code. The first of its
// restartPolicyRules that matches decides (KEP-5307), or else its restart policy. A successful init container never
// restarts: the caller must check for its success first.
func RestartsAfter(spec *v1.PodSpec, c *v1.Container, exitCode int32) bool {
	if ruleFor(c, exitCode) != nil {
		return true // every action restarts the container
	}
	switch RestartPolicyOf(spec, c) {
	case v1.ContainerRestartPolicyNever:
		return false
	case v1.ContainerRestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// ruleFor returns the first of a container's rules that matches an exit code, or nil.
func ruleFor(c *v1.Container, exitCode int32) *v1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		rule := &c.RestartPolicyRules[i]
		if on := rule.ExitCodes; on != nil &&
			slices.Contains(on.Values, exitCode) == (on.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule
		}
	}
	return nil
}

// RestartSource returns the first container c whose exit restarts all containers of the pod, by c's restartPolicyRules
// (KEP-5532). source is c's newest attempt, which has exited in the pod's ready sandbox. Both results are nil without
// such a container.
func RestartSource(spec *v1.PodSpec, status *PodStatus) (source *ContainerStatus, c *v1.Container) {
	sandbox := status.ReadySandbox()
	if sandbox == nil {
		return nil, nil
	}
	EachContainer(spec, func(container *v1.Container, _ Kind) {
		last := status.Container(container.Name)
		if source != nil || last == nil || last.State != StateExited || last.SandboxID != sandbox.ID {
			return
		}
		if rule := ruleFor(container, last.ExitCode); rule != nil &&
			rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
			source, c = last, container
		}
	})
	return source, c
}

// MayRestartAll reports whether the end of a container can restart all containers of the pod.
func MayRestartAll(spec *v1.PodSpec) bool {
	found := false
	EachContainer(spec, func(c *v1.Container, _ Kind) {
		found = found || slices.ContainsFunc(c.RestartPolicyRules, func(rule v1.ContainerRestartRule) bool {
			return rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	})
	return found
}
