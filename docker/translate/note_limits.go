package translate

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// noteLimits puts limits without a field in the Docker API into the container's note, so that they apply before the
// container's first instruction. Optional limits, and all of these limits if there are no notes, are written after the
// start, see CgroupFiles.
//
// A kubelet sets zero for each huge page size that a container does not request. A container with only such limits gets
// no note.
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

// NoteLimits returns the limits that a container's note holds, if the container has a note.
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
