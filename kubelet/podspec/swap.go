package podspec

import (
	"fmt"
	"math/big"
	"strconv"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/model"
)

// SwapBehavior says how much swap a container has (KEP-2400).
type SwapBehavior string

// The behaviors of KubeletConfiguration's memorySwap.swapBehavior.
const (
	// NoSwap gives no swap to any container.
	NoSwap SwapBehavior = "NoSwap"
	// LimitedSwap gives swap to containers of burstable pods, in proportion to their memory requests.
	LimitedSwap SwapBehavior = "LimitedSwap"
)

// CheckSwapBehavior fails for a behavior that this machine cannot have. Empty means NoSwap.
func CheckSwapBehavior(behavior SwapBehavior, host cgroup.Host) error {
	switch behavior {
	case "", NoSwap:
		return nil
	case LimitedSwap:
		if !host.Unified || !host.Swap {
			return fmt.Errorf("the swap behavior %s needs cgroup v2 with limits of swap, which this machine does not "+
				"have: %w", LimitedSwap, errdefs.ErrFailedPrecondition)
		}
		return nil
	}
	return fmt.Errorf("the swap behavior %q is neither %s nor %s: %w", behavior, NoSwap, LimitedSwap,
		errdefs.ErrInvalidArgument)
}

// limitSwap sets the swap limit, if the machine can limit swap.
func (g *Generator) limitSwap(out *runtimeapi.LinuxContainerResources, in ContainerInput) {
	switch {
	case !g.opts.Host.Swap:
	case g.opts.Host.Unified:
		setUnified(out, "memory.swap.max", strconv.FormatInt(g.swap(in.Pod, in.Container), 10))
	default:
		// The swap limit counts memory plus swap, so this leaves no swap. Without a memory limit the kernel has no swap
		// limit either.
		out.MemorySwapLimitInBytes = out.MemoryLimitInBytes
	}
}

// swap returns a container's swap in bytes: the machine's swap, times the container's memory request, divided by the
// machine's memory. Containers of critical, guaranteed and best-effort pods have none. Containers whose request equals
// their limit have none either.
func (g *Generator) swap(pod *v1.Pod, c *v1.Container) int64 {
	resources := model.ContainerResources(pod, c)
	request, limit := resources.Requests.Memory(), resources.Limits.Memory()
	if g.opts.SwapBehavior != LimitedSwap || model.QOS(pod) != v1.PodQOSBurstable || model.HasCriticalPriority(pod) ||
		request.IsZero() || request.Cmp(*limit) == 0 || g.opts.Host.Memory <= 0 {
		return 0
	}
	share := new(big.Int).Mul(big.NewInt(request.Value()), big.NewInt(g.opts.Host.SwapTotal))
	return share.Div(share, big.NewInt(g.opts.Host.Memory)).Int64()
}
