package peers

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestReady(t *testing.T) {
	condition := func(name string, status bool) *runtimeapi.RuntimeCondition {
		return &runtimeapi.RuntimeCondition{Type: name, Status: status, Message: "so it is"}
	}
	runtime, network := condition("RuntimeReady", true), condition("NetworkReady", true)
	for name, test := range map[string]struct {
		conditions []*runtimeapi.RuntimeCondition
		says       string
	}{
		"both": {[]*runtimeapi.RuntimeCondition{runtime, network}, ""},
		"not a condition of CRI": {[]*runtimeapi.RuntimeCondition{
			runtime, network, condition("ContainerdHasNoDeprecationWarnings", false),
		}, ""},
		"one is false": {[]*runtimeapi.RuntimeCondition{runtime, condition("NetworkReady", false)},
			"NetworkReady is false: : so it is"},
		"one is not there":        {[]*runtimeapi.RuntimeCondition{network}, "no condition RuntimeReady"},
		"a server before it says": {nil, "no condition"},
	} {
		err := Ready(&runtimeapi.RuntimeStatus{Conditions: test.conditions})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
