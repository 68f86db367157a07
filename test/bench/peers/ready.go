package peers

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/process"
)

// Ready returns nil if a server can run pods, and otherwise an error with the reason. Only the conditions that CRI
// requires count. containerd has another condition, which is false while containerd uses a deprecated feature, such as
// cgroup v1.
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

// startTimeout bounds the time from a server's start to its first good answer.
const startTimeout = 30 * time.Second

// AwaitCRI waits until the server at an endpoint, unix:///…, answers that it can run pods.
func AwaitCRI(ctx context.Context, server *process.Process, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	return server.Await(ctx, func(ctx context.Context) error {
		response, err := client.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			conn.ResetConnectBackoff()
			return err
		}
		return Ready(response.GetStatus())
	})
}
