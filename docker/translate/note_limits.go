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
	pages, unified := map[string]uint64{}, map[string]string{}
	asked := more.note != nil
	for _, limit := range r.GetHugepageLimits() {
		if slices.Contains(f.HugePages, limit.GetPageSize()) {
			pages[limit.GetPageSize()] = limit.GetLimit()
			asked = asked || limit.GetLimit() > 0
		}
	}
	for _, file := range CgroupFiles(r, f.CgroupVersion >= unifiedHierarchy) {
		if !file.Optional {
			unified[file.Name] = file.Value
			asked = true
		}
	}
	if !asked || len(pages)+len(unified) == 0 {
		return nil
	}
	note, err := more.need(field, "a limit without a field in the Docker API")
	if err == nil {
		note.HugepageLimits, note.Unified = pages, unified
	}
	return err
}
