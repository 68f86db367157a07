package server

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/server/fields"
)

// Status returns whether pods can run and have a network, and the reason if not. It succeeds in any state of the engine
// and the network.
func (s *Server) Status(ctx context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	features, known := s.lastFeatures(ctx)
	networkErr := s.networkError(ctx)
	response := &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			runtimeCondition(s.opts.Cache.Err()),
			s.networkCondition(networkErr, features),
		}},
		RuntimeHandlers: s.runtimeHandlers(features),
		Features: &runtimeapi.RuntimeFeatures{
			SupplementalGroupsPolicy: features.OCIRuntime.Works(),
			MountOptions:             features.OCIRuntime.Works(),
		},
	}
	if !req.GetVerbose() {
		return response, nil
	}
	var engine *docker.Features
	if known {
		engine = &features
	}
	info, err := s.runtimeInfo(ctx, engine, networkErr)
	response.Info = info
	return response, err
}

func (s *Server) networkError(ctx context.Context) error {
	if s.opts.Network == nil {
		return nil
	}
	return s.opts.Network.Status(ctx)
}

// runtimeCondition is RuntimeReady. The kubelet shows its reason in the node's condition.
func runtimeCondition(err error) *runtimeapi.RuntimeCondition {
	condition := &runtimeapi.RuntimeCondition{Type: runtimeapi.RuntimeReady, Status: err == nil}
	if err == nil {
		return condition
	}
	condition.Reason, condition.Message = "EngineUnavailable", err.Error()
	if errdefs.IsFailedPrecondition(err) {
		condition.Reason = "EngineNotSupported"
	}
	return condition
}

// networkCondition is NetworkReady. NetworkReady is also false if the default runtime cannot join a CNI network. In
// that case only pods of the host network could run, and the kubelet starts those pods without NetworkReady.
func (s *Server) networkCondition(err error, features docker.Features) *runtimeapi.RuntimeCondition {
	condition := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady}
	switch {
	case err != nil:
		condition.Reason, condition.Message = "NetworkPluginNotReady", err.Error()
	case features.BridgeFault != "":
		condition.Reason, condition.Message = "EngineBridgeNotSupported", features.BridgeFault
	case s.cannotJoin(features.DefaultRuntime, features):
		condition.Reason = "DefaultRuntimeNotSupported"
		condition.Message = fmt.Sprintf(
			"the engine's default runtime %q cannot be joined to a CNI network: set default-runtime of "+
				"daemon.json to runc or a similar runtime, or use --network-plugin=bridge", features.DefaultRuntime)
	default:
		condition.Status = true
	}
	return condition
}

// cannotJoin reports whether a runtime cannot join the pods' network.
func (s *Server) cannotJoin(runtime string, features docker.Features) bool {
	return s.opts.Network != nil && !features.JoinsCNI(runtime)
}

// runtimeHandlers lists the default handler, named "", and the engine's OCI runtimes that can join a CNI network. The
// default is always listed. If it cannot join, NetworkReady says so. Runtimes that read OCI notes are not handlers. The
// kubelet offers recursive read-only mounts and user namespaces only for handlers that announce them. So the default's
// other names are listed, too. User namespaces need criadapter-oci in front of the default runtime, and a CNI network.
func (s *Server) runtimeHandlers(features docker.Features) []*runtimeapi.RuntimeHandler {
	names := append([]string{""}, features.Runtimes...)
	if len(features.Runtimes) > 0 && !slices.Contains(names, docker.LegacyHandler) {
		names = append(names, docker.LegacyHandler)
	}
	handlers := make([]*runtimeapi.RuntimeHandler, 0, len(names))
	for _, name := range slices.Compact(names) {
		runtime, _ := features.Runtime(name)
		if name != "" && s.cannotJoin(runtime, features) {
			continue
		}
		handlers = append(handlers, &runtimeapi.RuntimeHandler{Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: hasRecursiveReadOnly(runtime, features),
			UserNamespaces: features.OCIRuntime.UserNamespaces && runtime == features.DefaultRuntime &&
				s.opts.Network != nil && !features.RunsPodSandboxes(runtime),
		}})
	}
	return handlers
}

// hasRecursiveReadOnly reports whether the engine, or criadapter-oci in front of the default runtime, can make mounts
// recursively read-only.
func hasRecursiveReadOnly(runtime string, features docker.Features) bool {
	return slices.Contains(features.RecursiveReadOnly, runtime) ||
		features.OCIRuntime.RecursiveReadOnly && runtime == features.DefaultRuntime
}

// runtimeInfo is the verbose part, shown by `crictl info`. engine is nil if the engine was never reached.
func (s *Server) runtimeInfo(
	ctx context.Context, engine *docker.Features, networkErr error,
) (map[string]string, error) {
	network := "OK"
	if networkErr != nil {
		network = networkErr.Error()
	}
	parts := map[string]any{
		"golang":            runtime.Version(),
		"lastCNILoadStatus": network,
	}
	if s.opts.Report != nil {
		parts[ReportKey] = s.opts.Report(ctx)
	}
	if s.opts.Config != nil {
		parts["config"] = s.opts.Config()
	}
	if engine != nil {
		parts["engine"] = engine
		// An object, because crictl shows a bare list as unformatted text.
		parts["fields"] = map[string][]fields.Ability{"abilities": fields.Abilities(*engine)}
	}
	if s.opts.Network != nil {
		parts["cniconfig"] = s.opts.Network.Config()
	}
	if cidr := s.podCIDR.Load(); cidr != nil {
		parts["podCIDR"] = *cidr
	}
	if warnings := s.warnings(ctx, engine); len(warnings) > 0 {
		parts["warnings"] = map[string][]string{"messages": warnings}
	}
	return encodeInfo(parts)
}

func (s *Server) warnings(ctx context.Context, engine *docker.Features) []string {
	var warnings []string
	if engine != nil && !engine.NegativeOOMScore {
		warnings = append(warnings,
			"the engine lacks CAP_SYS_RESOURCE: negative oom_score_adj values are raised to 0, so under memory "+
				"pressure the kernel may kill sandboxes and guaranteed pods like any others")
	}
	if s.opts.Warnings != nil {
		warnings = append(warnings, s.opts.Warnings(ctx)...)
	}
	return warnings
}

// encodeInfo makes the info map of a verbose answer. It keeps plain text and encodes the rest as JSON.
func encodeInfo(parts map[string]any) (map[string]string, error) {
	info := make(map[string]string, len(parts))
	for key, part := range parts {
		if text, ok := part.(string); ok {
			info[key] = text
			continue
		}
		encoded, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encode %s of the verbose answer: %w: %w", key, err, errdefs.ErrInternal)
		}
		info[key] = string(encoded)
	}
	return info, nil
}
