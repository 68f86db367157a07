package engine

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func TestNamed(t *testing.T) {
	for name, want := range map[string]string{
		"": Installed, Installed: Installed, "29-containerd": "29-containerd", "29-cgroup2": "29-cgroup2",
		"/x/dockerd": "/x/dockerd",
	} {
		v, err := Named(name)
		testutil.Assert(t, err == nil && v.Name == want && v.config["storage-driver"] != nil,
			"%q: %+v, %v", name, v, err)
	}
	for _, name := range []string{"29", "system", "x/dockerd"} {
		if v, err := Named(name); err == nil || !strings.Contains(err.Error(), "29-overlay2") {
			t.Errorf("%q: %+v, %v; want an error with the names of all engines", name, v, err)
		}
	}
}

func TestList(t *testing.T) {
	for names, want := range map[string]int{"": 1, "29-overlay2": 1, "installed,29-containerd": 2,
		"installed,25-overlay2,29-cgroup2": 3} {
		list, err := List(names)
		testutil.Assert(t, err == nil && len(list) == want, "%q: %+v, %v; want %d", names, list, err, want)
	}
	list, err := List("installed,29")
	testutil.Assert(t, err != nil, "an unknown name in a list is accepted: %+v", list)
}

func TestEnginesThatNeedNoBuild(t *testing.T) {
	for _, name := range []string{Installed, "/x/dockerd"} {
		v, err := Named(name)
		testutil.Must(t, err)
		cached, err := v.Cached()
		testutil.Assert(t, err == nil && cached, "%s must be built: %v", name, err)
	}
}

// The running engine has the properties that its name promises.
func TestEngineIsTheNamedOne(t *testing.T) {
	env := rigenv.Require(t)
	cli, err := client.New(client.WithHost(env.DockerHost))
	testutil.Must(t, err)
	defer cli.Close()
	answer, err := cli.Info(t.Context(), client.InfoOptions{})
	testutil.Must(t, err)
	variant, err := Named(env.Engine)
	testutil.Must(t, err)
	want := variant.config["storage-driver"]
	testutil.Assert(t, answer.Info.Driver == want, "its storage driver is %s, want %s", answer.Info.Driver, want)
	if major, _, _ := strings.Cut(env.Engine, "-"); variant.release != nil &&
		!strings.HasPrefix(answer.Info.ServerVersion, major+".") {
		t.Errorf("%s has the version %s", env.Engine, answer.Info.ServerVersion)
	}
	_, contentStore := variant.config["features"]
	snapshotter := false
	for _, pair := range answer.Info.DriverStatus {
		snapshotter = snapshotter || pair == [2]string{"driver-type", "io.containerd.snapshotter.v1"}
	}
	testutil.Assert(t, contentStore == snapshotter, "images in containerd: %v, want %v", snapshotter, contentStore)
	_, err = os.Stat("/sys/fs/cgroup/cgroup.controllers")
	if v2 := err == nil; variant.CgroupV2 && (!v2 || answer.Info.CgroupVersion != "2") {
		t.Errorf("cgroup v2 alone is mounted: %v; the engine reports cgroup version %s", v2, answer.Info.CgroupVersion)
	}
}
