package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHasShim(t *testing.T) {
	for name, c := range map[string]struct {
		environ, exe, at string
		want             bool
	}{
		"on PATH":              {"A=b\x00PATH=/usr/sbin:/usr/bin\x00", "/opt/dockerd", "/usr/bin", true},
		"beside dockerd":       {"PATH=/usr/bin", "/opt/docker/dockerd", "/opt/docker", true},
		"without any PATH":     {"", "/opt/docker/dockerd", "/opt/docker", true},
		"in another place":     {"PATH=/usr/bin", "/usr/bin/dockerd", "/usr/local/bin", false},
		"in another directory": {"PATH=usr/bin", "/opt/dockerd", "/usr/bin", false},
	} {
		process := t.TempDir()
		testutil.WriteFile(t, filepath.Join(process, "environ"), c.environ)
		place := filepath.Join(process, "root", c.at)
		testutil.Must(t, os.MkdirAll(place, 0o755))
		for link, target := range map[string]string{filepath.Join(place, shimProgram): "/not/seen/from/here",
			filepath.Join(process, "exe"): c.exe} {
			testutil.Must(t, os.Symlink(target, link))
		}
		testutil.Equal(t, hasShim(process, shimProgram), c.want, "%s", name)
	}
}
