package model

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// DefaultPullPolicy returns the API server's default pull policy: Always for the tag latest or no tag, because the
// image may have changed.
func DefaultPullPolicy(image string) v1.PullPolicy {
	if strings.Contains(image, "@") {
		return v1.PullIfNotPresent
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !tagged || tag == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
