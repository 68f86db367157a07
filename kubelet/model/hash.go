package model

import (
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
)

// ContainerHash hashes a container's name and image. The image can change in a running pod. If a running container has
// another hash, it is replaced. Other fields are left out, as in kubelets since 1.31, so a new default in a newer
// version restarts nothing. An edit of another field of a static pod makes a pod with another UID.
func ContainerHash(c *v1.Container) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d %s %s", len(c.Name), c.Name, c.Image)
	return fmt.Sprintf("%x", hash.Sum64())
}
