package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestPrivateSandboxImage pulls the sandbox image from a registry that wants credentials, with the node's credentials
// and without.
func TestPrivateSandboxImage(t *testing.T) {
	const name = "registry.example/pause:3.9"
	dir := t.TempDir()
	for file, text := range map[string]string{
		"right.json": `{"auths": {"other.example": {"auth": "eDp5"}, "https://registry.example:443/v2/": {"auth": "` +
			encoded("u:p") + `"}}}`,
		"other.json": `{"auths": {"other.example": {"auth": "` + encoded("u:p") + `"}}, "credsStore": "pass"}`,
		"torn.json":  `{"auths": {"registry.example": {"auth": "$ecret`,
	} {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	for file, want := range map[string]func(error) bool{
		"right.json":  func(err error) bool { return err == nil },
		"other.json":  errdefs.IsUnauthorized,
		"absent.json": errdefs.IsUnauthorized,
		"torn.json": func(err error) bool {
			return errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "torn.json") &&
				!strings.Contains(err.Error(), "ecret")
		},
	} {
		engine := dockertest.New(dockertest.Options{Registry: []dockertest.Image{
			{Names: []string{name}, Auth: &docker.Auth{Username: "u", Password: "p"}},
		}})
		s := newService(t, Options{Engine: engine, SandboxImage: name, CredentialsFile: filepath.Join(dir, file)})
		_, err := s.EnsureSandboxImage(t.Context())
		testutil.Assert(t, want(err), "with %s: %v", file, err)
		engine.Close()
	}
}
