package objects

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// ByOrigin returns the objects of manifests to static pods, and the server's objects to all other pods. Pods of the
// server must not see objects of manifests. The kubelet refuses static pods that name objects. The kubelet core also
// runs without a server, so its manifests have objects of their own. Both arguments are required.
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
