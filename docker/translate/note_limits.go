package translate

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// noteLimits puts limits for which the Docker API has no field into the container's note,
// so that its first instruction finds them. What the kernel may lack without harm is left
// to CgroupFiles after the start, and so is everything where there are no notes.
//
// A kubelet forbids each size of huge pages that a container does not ask for: that alone
// is no reason for a note.
func noteLimits(field string, r *runtimeapi.LinuxContainerResources, f docker.Features, more *extra) error {
	if !more.offered() {
		return nil
	}
	limits := NoteLimits(r, f)
	asked := more.note != nil || len(limits.Unified) > 0
	for _, limit := range limits.HugepageLimits {
		asked = asked || limit > 0
	}
	if !asked || len(limits.HugepageLimits)+len(limits.Unified) == 0 {
		return nil
	}
	note, err := more.need(field, "a limit without a field in the Docker API")
	if err == nil {
		note.HugepageLimits, note.Unified = limits.HugepageLimits, limits.Unified
	}
	return err
}

// NoteLimits are the limits that a container's note has, if the container has one.
func NoteLimits(r *runtimeapi.LinuxContainerResources, f docker.Features) docker.NoteLimits {
	limits := docker.NoteLimits{HugepageLimits: map[string]uint64{}, Unified: map[string]string{}}
	for _, limit := range r.GetHugepageLimits() {
		if slices.Contains(f.HugePages, limit.GetPageSize()) {
			limits.HugepageLimits[limit.GetPageSize()] = limit.GetLimit()
		}
	}
	for _, file := range CgroupFiles(r, f.CgroupVersion >= unifiedHierarchy) {
		if !file.Optional {
			limits.Unified[file.Name] = file.Value
		}
	}
	return limits
}
