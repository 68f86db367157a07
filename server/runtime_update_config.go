package server

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdateRuntimeConfig records the node's pod CIDR, which a verbose Status shows. It changes nothing else: the CNI
// configuration assigns addresses, and the network plugin's installer writes it.
func (s *Server) UpdateRuntimeConfig(
	ctx context.Context, req *runtimeapi.UpdateRuntimeConfigRequest,
) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	if err := require(need{"runtime_config", req.GetRuntimeConfig() != nil}); err != nil {
		return nil, err
	}
	cidr := req.GetRuntimeConfig().GetNetworkConfig().GetPodCidr()
	if err := checkCIDRs(cidr); err != nil {
		return nil, err
	}
	if old := s.podCIDR.Swap(&cidr); old == nil || *old != cidr {
		log.G(ctx).WithField("podCIDR", cidr).Info("pod CIDR recorded, addresses come from the CNI configuration")
	}
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// checkCIDRs checks the comma-separated CIDRs of a node, one per IP family. An empty list is valid.
func checkCIDRs(list string) error {
	if list == "" {
		return nil
	}
	for _, cidr := range strings.Split(list, ",") {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return fmt.Errorf("runtime_config.network_config.pod_cidr %q: %v: %w", list, err,
				errdefs.ErrInvalidArgument)
		}
	}
	return nil
}
