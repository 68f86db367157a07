package docker_test

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestRigRefusesARootlessEngine shows the refusal of a real rootless engine.
func TestRigRefusesARootlessEngine(t *testing.T) {
	env := rigenv.Require(t)
	wantRefusal(t, engine.Options{Env: env, Rootless: true}, "run dockerd as root")
}

// TestRigRefusesUserNSRemap shows the refusal of a real engine that remaps user ids.
func TestRigRefusesUserNSRemap(t *testing.T) {
	env := rigenv.Require(t)
	const id = "65534"
	nobody, err := user.LookupId(id)
	testutil.Must(t, err)
	ids := filepath.Join(t.TempDir(), "ids")
	testutil.Must(t, os.WriteFile(ids, []byte(nobody.Username+":100000:65536\n"), 0o644))
	for _, path := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := unix.Mount(ids, path, "", unix.MS_BIND, ""); err != nil { // in the rig's namespace alone
			t.Fatalf("%s: %v", path, err)
		}
		t.Cleanup(func() {
			err := unix.Unmount(path, 0)
			testutil.Assert(t, err == nil, "%s: %v", path, err)
		})
	}
	wantRefusal(t, engine.Options{Env: env, Config: map[string]any{
		"userns-remap": id + ":" + id,
		// The containerd image store does not work with userns-remap.
		"storage-driver": "overlay2", "features": map[string]bool{"containerd-snapshotter": false},
	}}, "remove userns-remap from daemon.json")
}

// wantRefusal starts an engine and wants a client to refuse it with that advice.
func wantRefusal(t *testing.T, opts engine.Options, advice string) {
	t.Helper()
	var err error
	opts.Dir, err = os.MkdirTemp(opts.Env.WorkDir, "k")
	testutil.Must(t, err)
	if err := os.Chmod(opts.Dir, 0o711); err != nil { // remapped users must reach directories in it
		t.Fatal(err)
	}
	e := engine.ForTest(t, opts)
	client, err := docker.Dial(docker.Options{Host: e.Host()})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	err = client.Ping(rigContext(t))
	testutil.Assert(t, errors.Is(err, errdefs.ErrFailedPrecondition) && strings.Contains(err.Error(), advice),
		"got %v, want a refusal that says: %s", err, advice)
}
