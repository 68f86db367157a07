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
)

// Status returns whether pods can run and be networked, and if not, why. It
// succeeds whatever the state of the engine and the network.
func (s *Server) Status(ctx context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	features, known := s.lastFeatures(ctx)
	networkErr := s.networkError(ctx)
	response := &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			runtimeCondition(s.opts.Mirror.Err()),
			networkCondition(networkErr),
		}},
		RuntimeHandlers: runtimeHandlers(features.Runtimes),
		Features:        &runtimeapi.RuntimeFeatures{},
	}
	if !req.GetVerbose() {
		return response, nil
	}
	var engine *docker.Features
	if known {
		engine = &features
	}
	info, err := s.runtimeInfo(engine, networkErr)
	response.Info = info
	return response, err
}

func (s *Server) networkError(ctx context.Context) error {
	if s.opts.Network == nil {
		return nil
	}
	return s.opts.Network.Status(ctx)
}

// runtimeCondition is RuntimeReady. The reasons are for the node's condition,
// which people read.
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

func networkCondition(err error) *runtimeapi.RuntimeCondition {
	condition := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: err == nil}
	if err != nil {
		condition.Reason, condition.Message = "NetworkPluginNotReady", err.Error()
	}
	return condition
}

// runtimeHandlers lists the default handler, named "", and the engine's OCI
// runtimes. None has the optional features: user namespaces per pod cannot be
// said in the engine's API.
func runtimeHandlers(runtimes []string) []*runtimeapi.RuntimeHandler {
	names := append([]string{""}, runtimes...)
	handlers := make([]*runtimeapi.RuntimeHandler, 0, len(names))
	for _, name := range slices.Compact(names) {
		handlers = append(handlers, &runtimeapi.RuntimeHandler{Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{}})
	}
	return handlers
}

// runtimeInfo is the verbose part, shown by `crictl info`. engine is nil when
// it was never reached.
func (s *Server) runtimeInfo(engine *docker.Features, networkErr error) (map[string]string, error) {
	network := "OK"
	if networkErr != nil {
		network = networkErr.Error()
	}
	parts := map[string]any{
		"golang":            runtime.Version(),
		"lastCNILoadStatus": network,
	}
	if s.opts.Config != nil {
		parts["config"] = s.opts.Config
	}
	if engine != nil {
		parts["engine"] = engine
	}
	if s.opts.Network != nil {
		parts["cniconfig"] = s.opts.Network.Config()
	}
	if cidr := s.podCIDR.Load(); cidr != nil {
		parts["podCIDR"] = *cidr
	}
	// An object, because crictl shows a bare list as unformatted text.
	if warnings := s.warnings(engine); len(warnings) > 0 {
		parts["warnings"] = map[string][]string{"messages": warnings}
	}
	return encodeInfo(parts)
}

// warnings are what an operator should know of.
func (s *Server) warnings(engine *docker.Features) []string {
	var warnings []string
	if engine != nil && !engine.NegativeOOMScore {
		warnings = append(warnings, "the engine lacks CAP_SYS_RESOURCE: negative oom_score_adj values are raised to 0, so under memory pressure the kernel may kill sandboxes and guaranteed pods like any others")
	}
	if s.opts.Warnings != nil {
		warnings = append(warnings, s.opts.Warnings()...)
	}
	return warnings
}

// encodeInfo makes the info map of a verbose answer: plain text stays as it is,
// anything else becomes JSON.
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
