package model

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// DefaultPullPolicy is the policy of an image whose pull policy is not set, as the API server defaults it: Always for
// what a tag named latest or no tag at all names, because it may have changed.
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
