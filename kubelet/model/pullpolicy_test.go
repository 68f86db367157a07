package model

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestDefaultPullPolicy has the API server's policies, of SetDefaults_Container in pkg/apis/core/v1/defaults.go.
func TestDefaultPullPolicy(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]v1.PullPolicy{
		"image": v1.PullAlways, "image:latest": v1.PullAlways, "r.example:5000/image": v1.PullAlways,
		"image:1": v1.PullIfNotPresent, "r.example:5000/image:1": v1.PullIfNotPresent,
		"image" + digest: v1.PullIfNotPresent, "image:1" + digest: v1.PullIfNotPresent,
		"image:latest" + digest: v1.PullAlways,
		"NoImage":               v1.PullIfNotPresent,
	} {
		testutil.Equal(t, DefaultPullPolicy(image), want, "%s", image)
	}
}
