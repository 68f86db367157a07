package image

import (
	"strings"
	"testing"

	"github.com/distribution/reference"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRegistryOfCredentials checks which addresses in credentials mean the registry of an image.
func TestRegistryOfCredentials(t *testing.T) {
	for _, c := range []struct {
		image, server string
		want          bool
	}{
		{"r.example/a", "r.example", true},
		{"r.example/a", "https://r.example", true},
		{"r.example/a", "https://r.example/v2/", true},
		{"r.example/a", "r.example:443", true},
		{"r.example/a", "https://r.example:443/v1/", true},
		{"r.example/a", "http://r.example:80", true},
		{"r.example/a", "R.Example", true},
		{"r.example:443/a", "r.example", true},
		{"r.example:443/a", "https://r.example", true},
		{"r.example:5000/a", "https://r.example:5000/v2/", true},
		{"[::1]:5000/a", "http://[::1]:5000/", true},
		{"[::1]/a", "[::1]:443", true},
		{"busybox", "docker.io", true},
		{"busybox", "https://index.docker.io/v1/", true},
		{"busybox", "registry-1.docker.io:443", true},
		{"index.docker.io/library/busybox", "docker.io", true},
		{"busybox", "https://registry.hub.docker.com", true},

		{"r.example/a", "r.example:5000", false},
		{"r.example:5000/a", "r.example", false},
		{"r.example/a", "https://r.example:80", false},
		{"r.example/a", "http://r.example:443", false},
		{"r.example/a", "other.example", false},
		{"r.example/a", "r.example.org", false},
		{"r.example/a", "sub.r.example", false},
		{"r.example/a", "docker.io", false},
		{"busybox", "hub.docker.com.example", false},
		{"[::1]:5000/a", "[::2]:5000", false},
	} {
		image, err := reference.ParseDockerRef(c.image)
		testutil.Must(t, err)
		testutil.Equal(t, parseRegistry(c.server).serves(image), c.want, "credentials of %s for %s", c.server, c.image)
	}
}

func FuzzParseRegistry(f *testing.F) {
	for _, seed := range []string{"", "docker.io", "https://index.docker.io/v1/", "host:5000/v2/", "http://", "://",
		"[::1]:5000", "[::1", ":443"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, server string) {
		got := parseRegistry(server)
		testutil.Assert(t, !strings.Contains(got.host+got.port, "/"), "%q gives %+v", server, got)
		if again := parseRegistry("https://" + server); !strings.Contains(server, "://") && again != got {
			t.Errorf("%q gives %+v, and %+v over https", server, got, again)
		}
	})
}
