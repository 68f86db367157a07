package docker

import (
	"slices"
	"testing"

	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRecursiveReadOnly checks that recursive read-only mounts need the engine, the kernel and the runtime. A runtime
// that reports no mount options counts as a runtime without this option.
func TestRecursiveReadOnly(t *testing.T) {
	runtimes := map[string]system.RuntimeWithStatus{
		"runc": {
			Status: map[string]string{runtimeFeatures: `{"ociVersionMax":"1.2.0","mountOptions":["bind","rro"]}`}},
		"crun":   {Status: map[string]string{runtimeFeatures: `{"mountOptions":["rro"]}`}},
		"runsc":  {Status: map[string]string{runtimeFeatures: `{"mountOptions":["ro","rbind"]}`}},
		"kata":   {Status: map[string]string{runtimeFeatures: "?"}},
		"silent": {},
	}
	for _, c := range []struct {
		api    string
		kernel bool
		want   []string
	}{
		{"1.44", true, []string{"crun", "runc"}},
		{"1.52", true, []string{"crun", "runc"}},
		{"1.43", true, nil},
		{"1.52", false, nil},
	} {
		got := recursiveReadOnly(runtimes, c.api, c.kernel)
		testutil.Assert(t, slices.Equal(got, c.want),
			"API %s, kernel %t: got %q, want %q", c.api, c.kernel, got, c.want)
	}
}
