package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/server"
)

// Answer is the status of a CRI server.
type Answer struct {
	// Endpoint is the server's socket.
	Endpoint string `json:"endpoint"`
	// Runtime is the runtime's name in CRI, "docker 20.10.24".
	Runtime string `json:"runtime"`
	// Conditions are CRI's conditions, with an empty text for a true one.
	Conditions map[string]string `json:"conditions"`
	// Handlers are the runtime handlers. The default one has an empty name.
	Handlers []Handler `json:"handlers"`
	// Report is nil for other CRI servers and for criadapter before v0.2. Engine is nil until the engine was reached.
	Report *Report          `json:"report,omitempty"`
	Engine *docker.Features `json:"engine,omitempty"`
	// Warnings are warnings for the operator.
	Warnings []string `json:"warnings,omitempty"`
}

// Handler is a runtime handler with its features.
type Handler struct {
	Name              string `json:"name"`
	RecursiveReadOnly bool   `json:"recursiveReadOnly,omitempty"`
}

// Ready reports whether all conditions hold.
func (a Answer) Ready() bool {
	for _, fault := range a.Conditions {
		if fault != "" {
			return false
		}
	}
	return true
}

// maxAnswer bounds an answer, in bytes: a list of all containers may be larger than gRPC's default.
const maxAnswer = 16 << 20

// Dial returns a connection to the CRI server on a unix socket. The first request connects.
func Dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
}

// errNotStarted is for a socket at which a connection would start a server.
var errNotStarted = errors.New("no server runs: systemd listens there and would start one, so start its service first")

// CheckStarted fails if a connection to a unix socket would let systemd start its server.
func CheckStarted(endpoint string) error {
	if proctable.OnlySystemd("/proc", strings.TrimPrefix(endpoint, "unix://")) {
		return errNotStarted
	}
	return nil
}

// AskRunning is like Ask, but it never starts the server: it fails if CheckStarted does.
func AskRunning(ctx context.Context, endpoint string) (Answer, error) {
	if err := CheckStarted(endpoint); err != nil {
		return Answer{Endpoint: endpoint}, err
	}
	return Ask(ctx, endpoint)
}

// Ask asks the CRI server on a unix socket for its status. It fails when ctx ends. The connection may make systemd
// start the server.
func Ask(ctx context.Context, endpoint string) (Answer, error) {
	answer := Answer{Endpoint: endpoint, Conditions: map[string]string{}}
	conn, err := Dial(endpoint)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	version, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return answer, err
	}
	answer.Runtime = strings.TrimSpace(version.GetRuntimeName() + " " + version.GetRuntimeVersion())
	response, err := client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return answer, err
	}
	for _, condition := range response.GetStatus().GetConditions() {
		fault := ""
		if !condition.GetStatus() {
			fault = fmt.Sprintf("%s: %s", condition.GetReason(), condition.GetMessage())
		}
		answer.Conditions[condition.GetType()] = fault
	}
	for _, handler := range response.GetRuntimeHandlers() {
		answer.Handlers = append(answer.Handlers,
			Handler{Name: handler.GetName(), RecursiveReadOnly: handler.GetFeatures().GetRecursiveReadOnlyMounts()})
	}
	return answer, answer.decode(response.GetInfo())
}

// decode reads the parts of the answer that only criadapter sends.
func (a *Answer) decode(info map[string]string) error {
	if _, ours := info[server.ReportKey]; !ours {
		return nil
	}
	var warnings struct{ Messages []string }
	for key, into := range map[string]any{server.ReportKey: &a.Report, "engine": &a.Engine, "warnings": &warnings} {
		if text, found := info[key]; found {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return fmt.Errorf("%s of the answer: %w", key, err)
			}
		}
	}
	a.Warnings = warnings.Messages
	return nil
}
