package peers

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Ready says why a server's status is not that of one that can run pods. Only the conditions that CRI requires count:
// containerd has another one, which is false while anything deprecated is in use, such as cgroup v1.
func Ready(status *runtimeapi.RuntimeStatus) error {
	missing := map[string]bool{runtimeapi.RuntimeReady: true, runtimeapi.NetworkReady: true}
	for _, condition := range status.GetConditions() {
		if !missing[condition.GetType()] {
			continue
		}
		if !condition.GetStatus() {
			return fmt.Errorf("%s is false: %s: %s", condition.GetType(), condition.GetReason(), condition.GetMessage())
		}
		delete(missing, condition.GetType())
	}
	for name := range missing {
		return fmt.Errorf("the status has no condition %s", name)
	}
	return nil
}
