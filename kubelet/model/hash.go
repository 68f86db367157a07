package model

import (
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
)

// ContainerHash is a hash of what may change in a container of a running pod: its name and image. When the one on a
// running container differs, the container is replaced. Fields that cannot change are left out, as kubelets do since
// 1.31, so that a new default in a newer version restarts nothing; an edit of another field of a static pod makes a pod
// with another UID.
func ContainerHash(c *v1.Container) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d %s %s", len(c.Name), c.Name, c.Image)
	return fmt.Sprintf("%x", hash.Sum64())
}
