package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestCrictlImages pulls an image, finds it under every name that crictl may ask for, and removes it. No other test
// uses the image.
func TestCrictlImages(t *testing.T) {
	c := newCrictl(t)
	name := c.env.Image("test/crictl:latest")

	pulled := c.run("pull", name)
	id, ok := strings.CutPrefix(pulled, "Image is up to date for ")
	testutil.Require(t, ok && strings.HasPrefix(id, "sha256:"), "pull printed %q", pulled)
	listed := findImage(t, c, name)
	same(t, "id in the list", listed.ID, id)
	same(t, "number of digests", len(listed.RepoDigests), 1)

	for _, by := range []string{name, id, strings.TrimPrefix(id, "sha256:")[:12], listed.RepoDigests[0]} {
		var status imageStatus
		c.read(&status, "inspecti", "-o", "json", by)
		same(t, "id by "+by, status.Status.ID, id)
		testutil.Assert(t, slices.Contains(status.Status.RepoTags, name),
			"inspecti %s: tags %q lack %q", by, status.Status.RepoTags, name)
		testutil.Assert(t, status.Status.Size != "" && status.Status.Size != "0",
			"inspecti %s: size %q", by, status.Status.Size)
	}

	removed := c.run("rmi", name)
	testutil.Assert(t, strings.Contains(removed, name), "rmi printed %q", removed)
	r := c.try("inspecti", name)
	testutil.Assert(t, r.code != 0, "inspecti after rmi:\n%s", r.stdout)
	var list imageList
	c.read(&list, "images", "-o", "json")
	for _, image := range list.Images {
		testutil.Assert(t, image.ID != id, "still listed after rmi: %+v", image)
	}
}

// A pull from a registry that requires an account fails without the account, and succeeds with the account.
func TestCrictlPullWithCredentials(t *testing.T) {
	c := newCrictl(t)
	name := c.env.AuthRegistry + "/test/crictl-account:latest"
	r := c.try("pull", name)
	testutil.Require(t, r.code != 0, "pulled without credentials:\n%s", r.stdout)
	c.run("pull", "--creds", rigenv.RegistryUser+":"+rigenv.RegistryPassword, name)
	findImage(t, c, name)
	c.run("rmi", name)
}

// The error of a pull names the missing image.
func TestCrictlPullMissing(t *testing.T) {
	c := newCrictl(t)
	name := c.env.Image("test/no-such-image:latest")
	r := c.try("pull", name)
	testutil.Require(t, r.code != 0, "pulled:\n%s", r.stdout)
	testutil.Assert(t, strings.Contains(r.stderr, "no-such-image"), "the error does not name the image:\n%s", r.stderr)
}

// findImage returns the image of that name from `crictl images`.
func findImage(t *testing.T, c *crictl, name string) imageEntry {
	t.Helper()
	var list imageList
	c.read(&list, "images", "-o", "json")
	for _, image := range list.Images {
		if slices.Contains(image.RepoTags, name) {
			return image
		}
	}
	t.Fatalf("images does not list %s: %+v", name, list.Images)
	return imageEntry{}
}
