package model

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRestartsAfter(t *testing.T) {
	rule := func(operator v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestart,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
	}
	for _, c := range []struct {
		pod   v1.RestartPolicy
		own   v1.ContainerRestartPolicy
		rules []v1.ContainerRestartRule
		code  int32
		want  bool
	}{
		{v1.RestartPolicyAlways, "", nil, 0, true},
		{v1.RestartPolicyOnFailure, "", nil, 0, false},
		{v1.RestartPolicyOnFailure, "", nil, 1, true},
		{v1.RestartPolicyNever, "", nil, 1, false},
		{v1.RestartPolicyAlways, v1.ContainerRestartPolicyNever, nil, 1, false},
		{v1.RestartPolicyNever, v1.ContainerRestartPolicyOnFailure, nil, 1, true},
		{v1.RestartPolicyNever, v1.ContainerRestartPolicyNever, []v1.ContainerRestartRule{rule("In", 1, 42)}, 42, true},
		{v1.RestartPolicyNever, v1.ContainerRestartPolicyNever, []v1.ContainerRestartRule{rule("In", 1, 42)}, 2, false},
		{v1.RestartPolicyNever, v1.ContainerRestartPolicyNever, []v1.ContainerRestartRule{rule("NotIn", 3)}, 3, false},
		{v1.RestartPolicyNever, v1.ContainerRestartPolicyNever,
			[]v1.ContainerRestartRule{rule("NotIn", 3), rule("In", 3)}, 3, true},
	} {
		container := v1.Container{RestartPolicyRules: c.rules}
		if c.own != "" {
			container.RestartPolicy = &c.own
		}
		testutil.Equal(t, RestartsAfter(&v1.PodSpec{RestartPolicy: c.pod}, &container, c.code), c.want, "%+v", c)
	}
}
