package translate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// shimGroup is the annotation that containerd's shim of runc reads when it starts: containers with the same value have
// one shim.
const shimGroup = "io.containerd.runc.v2.group"

// shareShim gives all containers of a pod one shim, instead of one each. The group contains the OCI runtime, because a
// shim that was started with criadapter-oci as its runc must serve no container without a note.
//
// Each container has a shim of its own below API 1.43, because the engine then passes no annotation. The same holds if
// a script starts the runtime. A shim works in the directory of its first container, which is gone after that
// container's end. The script's shell would then write an error into the log of each further container.
func shareShim(pod *runtimeapi.PodSandboxMetadata, spec *docker.ContainerSpec, f docker.Features) {
	if !f.Supports(apiAnnotations) {
		return
	}
	runtime := spec.Host.Runtime
	if spec.Note != nil {
		runtime = f.OCIRuntime.Name
	}
	if slices.Contains(f.ScriptedRuntimes, cmp.Or(runtime, f.DefaultRuntime)) {
		return
	}
	setAnnotation(spec.Host, shimGroup, SandboxName(pod)+"/"+runtime)
}

func setAnnotation(host *container.HostConfig, key, value string) {
	annotations := maps.Clone(host.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	host.Annotations = annotations
}
