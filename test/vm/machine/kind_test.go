package machine

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/images"
)

// A machine is found by its name. Another name is refused, and the error has all names.
func TestKindNamed(t *testing.T) {
	for _, want := range Kinds() {
		kind, err := KindNamed(want.Name)
		testutil.Must(t, err)
		testutil.Assert(t, kind.Name == want.Name, "%s is %s", want.Name, kind.Name)
	}
	kind, err := KindNamed("")
	testutil.Must(t, err)
	testutil.Assert(t, kind.Name == AppArmor().Name, "the default is %s", kind.Name)
	_, err = KindNamed("riscv64")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "apparmor, selinux, arm64"), "%v", err)
}

// All kinds have different hardware, which is part of the cache key of saved memory.
func TestKindsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, kind := range Kinds() {
		hardware := strings.Join(kind.hardware(), " ")
		other, twice := seen[hardware]
		testutil.Assert(t, !twice, "%s and %s have the same hardware", kind.Name, other)
		seen[hardware] = kind.Name
	}
}

// Container images for a machine of another architecture are made of programs from the machine's own image.
func TestImageHost(t *testing.T) {
	here := images.ThisHost()
	for _, architecture := range []string{"amd64", "arm64"} {
		want := images.Host{Architecture: architecture, Userland: filepath.Join("image", userlandFile)}
		if architecture == here.Architecture {
			want = here
		}
		host := Kind{Architecture: architecture}.ImageHost("image")
		testutil.Assert(t, host == want, "%s: %+v, want %+v", architecture, host, want)
	}
}
