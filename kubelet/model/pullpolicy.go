package model

import (
	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

// DefaultPullPolicy returns the API server's default pull policy: Always for the tag latest, because the image may have
// changed. A name with neither tag nor digest means latest. The API server does not make an exception for latest with a
// digest.
func DefaultPullPolicy(image string) v1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return v1.PullIfNotPresent // as in the API server
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
