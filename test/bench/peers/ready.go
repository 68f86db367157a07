package peers

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
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

// AwaitCRI waits until a server that was started answers at an address, unix:///…, that it can run pods.
func (p *Process) AwaitCRI(ctx context.Context, endpoint string) error {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	return p.wait(ctx, func(ctx context.Context) error {
		response, err := client.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			conn.ResetConnectBackoff()
			return err
		}
		return Ready(response.GetStatus())
	})
}
