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
	for _, rule := range c.RestartPolicyRules {
		if on := rule.ExitCodes; on != nil && slices.Contains(on.Values, exitCode) == (on.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
			return true // Restart is the only action that package manifest takes
		}
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
