package podspec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cgroup"
)

func TestLimitedSwap(t *testing.T) {
	for name, c := range map[string]struct {
		requests, limits v1.ResourceList
		change           func(*v1.Pod)
		want             string
	}{
		"in proportion":                {requests: amounts("", "1Gi"), want: "536870912"},
		"with a limit above":           {requests: amounts("", "2Gi"), limits: amounts("", "3Gi"), want: "1073741824"},
		"its request is its limit":     {requests: amounts("1", "1Gi"), limits: amounts("", "1Gi"), want: "0"},
		"without a request":            {requests: amounts("1", ""), want: "0"},
		"best effort":                  {want: "0"},
		"guaranteed":                   {limits: amounts("1", "1Gi"), want: "0"},
		"of a pod with a system class": {requests: amounts("", "1Gi"), change: critical, want: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(func(p *v1.Pod) {
				p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
				if c.change != nil {
					c.change(p)
				}
			})
			g := testGenerator(t, func(o *Options) {
				o.SwapBehavior = LimitedSwap
				o.Host = cgroup.Host{Memory: 4 << 30, SwapTotal: 2 << 30, Swap: true, Unified: true}
			})
			testutil.Equal(t, g.resources(input(pod)).GetUnified()["memory.swap.max"], c.want, "memory.swap.max")
		})
	}
}

func critical(p *v1.Pod) {
	p.Spec.Priority = new(int32(2_000_000_000))
}

func TestCheckSwapBehavior(t *testing.T) {
	able := cgroup.Host{Swap: true, Unified: true}
	for name, c := range map[string]struct {
		behavior SwapBehavior
		host     cgroup.Host
		want     string
	}{
		"none":           {host: cgroup.Host{}},
		"no swap":        {behavior: NoSwap},
		"limited":        {behavior: LimitedSwap, host: able},
		"cgroup v1":      {behavior: LimitedSwap, host: cgroup.Host{Swap: true}, want: "needs cgroup v2"},
		"without limits": {behavior: LimitedSwap, host: cgroup.Host{Unified: true}, want: "needs cgroup v2"},
		"unknown":        {behavior: "UnlimitedSwap", host: able, want: `"UnlimitedSwap" is neither`},
	} {
		err := CheckSwapBehavior(c.behavior, c.host)
		testutil.Assert(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)),
			"%s: %v", name, err)
	}
}
