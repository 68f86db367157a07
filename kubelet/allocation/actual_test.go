package allocation

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/model"
)

func amounts(cpu, memory string) v1.ResourceList {
	list := v1.ResourceList{}
	for name, amount := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if amount != "" {
			list[name] = resource.MustParse(amount)
		}
	}
	return list
}

func text(r v1.ResourceRequirements) string {
	word := func(list v1.ResourceList, name v1.ResourceName) string {
		if amount, ok := list[name]; ok {
			return amount.String()
		}
		return "-"
	}
	all := ""
	for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
		all += word(list, v1.ResourceCPU) + " " + word(list, v1.ResourceMemory) + " "
	}
	return all[:len(all)-1]
}

// TestActual: amounts that differ from the reported limits only by rounding stay.
func TestActual(t *testing.T) {
	type limits = model.ActualLimits
	for _, c := range []struct {
		name             string
		requests, limits v1.ResourceList
		now              limits
		want             string
	}{
		{"as wanted, rounded", amounts("333m", "10Mi"), amounts("1", "64Mi"),
			limits{CPUShares: 340, CPUQuota: 100_000, CPUPeriod: 100_000, Memory: 64 << 20}, "333m 10Mi 1 64Mi"},
		{"another period", nil, amounts("500m", ""), limits{CPUShares: 512, CPUQuota: 10_000, CPUPeriod: 20_000},
			"- - 500m -"},
		{"all others", amounts("1", "10Mi"), amounts("2", "64Mi"),
			limits{CPUShares: 512, CPUQuota: 50_000, CPUPeriod: 100_000, Memory: 32 << 20}, "500m 10Mi 500m 32Mi"},
		{"guaranteed stays so", amounts("1", "64Mi"), amounts("1", "64Mi"),
			limits{CPUShares: 1024, CPUQuota: 100_000, CPUPeriod: 100_000, Memory: 32 << 20}, "1 32Mi 1 32Mi"},
		{"not limited yet", amounts("1", "10Mi"), amounts("2", "64Mi"),
			limits{CPUShares: 2, CPUQuota: -1, CPUPeriod: 100_000, Memory: cgroup.Unlimited}, "- 10Mi - -"},
		{"limited until now", nil, nil, limits{CPUShares: 102, CPUQuota: 10_000, Memory: 1 << 20}, "100m - 100m 1Mi"},
		{"shares not shown", amounts("1", ""), nil, limits{}, "1 - - -"},
	} {
		wanted := v1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
		before := text(wanted)
		testutil.Equal(t, text(actual(wanted, &c.now)), c.want, "%s", c.name)
		testutil.Assert(t, text(wanted) == before, "%s: the argument was changed", c.name)
	}
}

// TestActuatedOfAnEarlierVersion: without an annotation, the actual limits count until SetActuated.
func TestActuatedOfAnEarlierVersion(t *testing.T) {
	m, err := Open(t.TempDir() + "/allocated")
	testutil.Must(t, err)
	spec := &v1.Container{Name: "a", Resources: v1.ResourceRequirements{Limits: amounts("", "64Mi")}}
	container := &model.ContainerStatus{ID: "1", Name: "a"}
	_, known := m.Actuated("uid", spec, container)
	testutil.Assert(t, !known, "resources are known without an annotation or limits")
	container.Actual = &model.ActualLimits{CPUShares: 2, Memory: 32 << 20}
	now, known := m.Actuated("uid", spec, container)
	testutil.Assert(t, known && text(now) == "- - - 32Mi", "%v, %v", now, known)
	testutil.Must(t, m.SetActuated("uid", container, spec.Resources))
	now, known = m.Actuated("uid", spec, container)
	testutil.Assert(t, known && text(now) == "- - - 64Mi", "after SetActuated: %v, %v", now, known)
}
