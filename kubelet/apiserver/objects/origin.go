package objects

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// ByOrigin returns the manifests' objects for static pods and the server's for all others. A kubelet refuses references
// of static pods. The kubelet core also runs without a server, so manifests bring their own objects, and pods of the
// server must not see them. Both arguments are required.
func ByOrigin(manifests, server volumekinds.Objects) volumekinds.Objects {
	return byOrigin{manifests: manifests, server: server}
}

type byOrigin struct{ manifests, server volumekinds.Objects }

func (o byOrigin) of(pod *v1.Pod) volumekinds.Objects {
	if model.IsStatic(pod) {
		return o.manifests
	}
	return o.server
}

// ConfigMap implements volumekinds.Objects.
func (o byOrigin) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	return o.of(pod).ConfigMap(pod, name)
}

// Secret implements volumekinds.Objects.
func (o byOrigin) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	return o.of(pod).Secret(pod, name)
}
