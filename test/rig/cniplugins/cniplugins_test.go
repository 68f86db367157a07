package cniplugins

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestBuild(t *testing.T) {
	dir, err := Build(t.Context(), runtime.GOARCH)
	testutil.Must(t, err)
	entries, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(entries) == 5, "built %v, %v; want five plugins", entries, err)
	for _, name := range []string{"bridge", "firewall", "host-local", "loopback", "portmap"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name))
		cmd.Env = []string{"CNI_COMMAND=VERSION"}
		cmd.Stdin = strings.NewReader(`{"cniVersion":"1.0.0"}`)
		out, err := cmd.Output()
		testutil.Assert(t, err == nil && strings.Contains(string(out), `"supportedVersions"`),
			"%s: %s, %v", name, out, err)
	}
}

func TestVersionIsTheModulesOne(t *testing.T) {
	want := strings.Replace(version, "@", " ", 1)
	testutil.Assert(t, strings.Contains(string(goMod), want+" "),
		"plugins.mod does not require %s: entries in the cache would be named wrongly", want)
}
