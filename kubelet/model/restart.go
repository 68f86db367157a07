package model

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// RestartPolicyOf is the restart policy of one container: its own, or the pod's.
func RestartPolicyOf(spec *v1.PodSpec, c *v1.Container) v1.ContainerRestartPolicy {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy
	}
	return v1.ContainerRestartPolicy(spec.RestartPolicy)
}

// RestartsAfter says whether an app or init container that ended with an exit code is started again: by the first of its
// restartPolicyRules that fits (KEP-5307), or by its policy. What holds for all init containers, that a success is never
// repeated, is not looked at.
func RestartsAfter(spec *v1.PodSpec, c *v1.Container, exitCode int32) bool {
	if ruleFor(c, exitCode) != nil {
		return true // all actions start it again
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

// ruleFor is the first of a container's rules that fits an exit code, nil for none.
func ruleFor(c *v1.Container, exitCode int32) *v1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		rule := &c.RestartPolicyRules[i]
		if on := rule.ExitCodes; on != nil && slices.Contains(on.Values, exitCode) == (on.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule
		}
	}
	return nil
}

// RestartSource is the newest attempt of a container whose end has all containers of the pod start again, by its
// restartPolicyRules (KEP-5532), in the pod's ready sandbox; nil for none. C is that container.
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
		if rule := ruleFor(container, last.ExitCode); rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
			source, c = last, container
		}
	})
	return source, c
}

// MayRestartAll says whether the end of a container of the pod can have all of them start again.
func MayRestartAll(spec *v1.PodSpec) bool {
	found := false
	EachContainer(spec, func(c *v1.Container, _ Kind) {
		found = found || slices.ContainsFunc(c.RestartPolicyRules, func(rule v1.ContainerRestartRule) bool {
			return rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	})
	return found
}
