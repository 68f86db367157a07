package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	mobyclient "github.com/moby/moby/client"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func dialOCI(t *testing.T, own *engine.Engine, mode docker.OCIRuntimeMode) *docker.Client {
	t.Helper()
	client, err := docker.Dial(docker.Options{Host: own.Host(), OCIRuntime: mode})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// awaitOCI waits until wanted accepts the client's OCI runtime or its error, and returns the engine's features. On a
// slow machine, the first request does not wait for the whole test of the runtime, and only a later request has the
// result.
func awaitOCI(
	t *testing.T, client *docker.Client, wanted func(docker.OCIRuntime, error) bool,
) (features docker.Features) {
	t.Helper()
	testutil.Eventually(t, func() (err error) {
		if features, err = client.Features(rigContext(t)); wanted(features.OCIRuntime, err) {
			return nil
		}
		return fmt.Errorf("got %+v, %v", features.OCIRuntime, err)
	})
	return features
}

// works accepts a runtime that works.
func works(r docker.OCIRuntime, err error) bool { return err == nil && r.Works() }

// worksIfThere accepts an engine without the runtime, and a runtime that works and makes mounts read-only recursively.
func worksIfThere(r docker.OCIRuntime, err error) bool {
	return err == nil && (r.Name == "" || r.Works() && r.RecursiveReadOnly)
}

// TestRigOCIRuntimeIsProven connects to three real engines: with the runtime, with a broken runtime, and without the
// runtime.
func TestRigOCIRuntimeIsProven(t *testing.T) {
	env := rigenv.Require(t)
	broken := filepath.Join(t.TempDir(), "criadapter-oci")
	testutil.Must(t, os.WriteFile(broken, []byte("#!/bin/sh\nexec runc \"$@\"\n"), 0o755))
	for name, c := range map[string]struct {
		runtimes map[string]any
		proven   bool
		required string
	}{
		"works": {nil, true, ""},
		"reads no notes": {map[string]any{"criadapter": map[string]any{"path": broken}}, false,
			"was started without the settings of its note"},
		"is not there": {map[string]any{"criadapter": map[string]any{"path": "/nonesuch/criadapter-oci"}}, false,
			"/nonesuch/criadapter-oci"},
		"is none": {map[string]any{}, false, "no runtime whose program is criadapter-oci"},
	} {
		t.Run(name, func(t *testing.T) {
			env := env
			var config map[string]any
			if c.runtimes != nil {
				// With a wrong runtime in daemon.json, the engine must not find criadapter-oci by the name of a shim.
				env.Registration, config = rigenv.RegistrationDaemonJSON, map[string]any{"runtimes": c.runtimes}
			}
			own, _ := startEngine(t, env, config)
			client := dialOCI(t, own, docker.OCIRuntimeAuto)
			awaitOCI(t, client, func(r docker.OCIRuntime, err error) bool {
				return err == nil && r.Works() == c.proven && r.RecursiveReadOnly == c.proven &&
					r.UserNamespaces == c.proven
			})
			features, err := dialOCI(t, own, docker.OCIRuntimeOff).Features(rigContext(t))
			testutil.Assert(t, err == nil && features.OCIRuntime.Name == "", "off: %+v, %v", features.OCIRuntime, err)
			awaitOCI(t, dialOCI(t, own, docker.OCIRuntimeRequired), func(_ docker.OCIRuntime, err error) bool {
				if c.required == "" {
					return err == nil
				}
				return err != nil && strings.Contains(err.Error(), c.required)
			})
			left, err := client.ListContainers(rigContext(t), nil)
			testutil.Assert(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
		})
	}
}

// TestRigIgnoredMountOption has a default runtime that ignores the mount option rro, as runc before 1.1 does. Recursive
// read-only mounts are then not announced, and the other features are.
func TestRigIgnoredMountOption(t *testing.T) {
	env := rigenv.Require(t)
	dir := t.TempDir()
	old := filepath.Join(dir, "old-runc")
	const script = `#!/bin/sh
for arg in "$@"; do
	[ "$before" != --bundle ] || [ ! -f "$arg/config.json" ] || sed -i 's/"rro",//; s/,"rro"//' "$arg/config.json"
	before=$arg
done
exec runc "$@"
`
	testutil.Must(t, os.WriteFile(old, []byte(script), 0o755))
	own, _ := startEngine(t, env, map[string]any{
		"default-runtime": "old",
		"runtimes": map[string]any{
			"old": map[string]any{"path": old},
			"criadapter": map[string]any{"path": env.OCIRuntime,
				"runtimeArgs": []string{"--criadapter-notes", filepath.Join(dir, "notes")}},
		},
	})
	r := awaitOCI(t, dialOCI(t, own, docker.OCIRuntimeRequired), func(r docker.OCIRuntime, err error) bool {
		return works(r, err) && r.UserNamespaces
	}).OCIRuntime
	testutil.Assert(t, !r.RecursiveReadOnly, "got %+v", r)
}

// TestRigNotesLiveAsLongAsContainers checks that a note is removed with its container, by any client.
func TestRigNotesLiveAsLongAsContainers(t *testing.T) {
	own, env := startEngine(t, rigenv.Require(t), nil)
	client := dialOCI(t, own, docker.OCIRuntimeRequired)
	notes := awaitOCI(t, client, works).OCIRuntime.Notes
	testutil.Must(t, client.PullImage(rigContext(t), env.Image(rigImage), docker.PullOptions{}))
	var ids []string
	for range 2 {
		id := notedContainer(t, client, env)
		note, err := notes.Load(id)
		testutil.Assert(t, err == nil && note.Hostname == "noted", "the note is %+v, %v", note, err)
		ids = append(ids, id)
	}
	testutil.Must(t, client.RemoveContainer(rigContext(t), ids[0]))
	// A client with the runtime switched off removes the other container.
	ours, err := notes.Load(ids[1])
	testutil.Must(t, err)
	testutil.Must(t, dialOCI(t, own, docker.OCIRuntimeOff).RemoveContainer(rigContext(t), ids[1]))
	left, err := notes.List()
	testutil.Assert(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
	// Another client removes a container while events report it.
	id := notedContainer(t, client, env)
	stop := watchEvents(t, client)
	raw, err := mobyclient.New(mobyclient.WithHost(own.Host()))
	testutil.Must(t, err)
	defer raw.Close()
	_, err = raw.ContainerRemove(rigContext(t), id, mobyclient.ContainerRemoveOptions{})
	testutil.Must(t, err)
	testutil.Eventually(t, func() error {
		if left, err := notes.List(); err != nil || len(left) > 0 {
			return fmt.Errorf("left are %v, %v", left, err)
		}
		return nil
	})
	stop()
	// Another client has removed a container. Notes of another engine are left alone.
	testutil.Must(t, notes.Save(ids[1], ours))
	foreign := strings.Repeat("f0", 32)
	t.Cleanup(func() { _ = notes.Remove(foreign) }) // engines that know the shim share the directory
	testutil.Must(t, notes.Save(foreign, ocinote.Note{Engine: "another"}))
	awaitOCI(t, dialOCI(t, own, docker.OCIRuntimeAuto), works)
	left, err = notes.List()
	testutil.Assert(t, err == nil && len(left) == 1 && left[0] == foreign, "left are %v, %v", left, err)
}

// User namespaces are announced only if a test container could join one. With a storage driver that does not use the
// kernel's overlay, it cannot.
func TestRigUserNamespacesNeedLayers(t *testing.T) {
	env := rigenv.Require(t)
	own, _ := startEngine(t, env, map[string]any{"storage-driver": engine.CopyDriver(env)})
	awaitOCI(t, dialOCI(t, own, docker.OCIRuntimeRequired), func(r docker.OCIRuntime, err error) bool {
		testutil.Require(t, !r.UserNamespaces, "got %+v", r)
		return works(r, err) && strings.Contains(r.NoUserNamespaces, "only layers of the kernel's overlay")
	})
}

// notedContainer makes a container with a note.
func notedContainer(t *testing.T, client *docker.Client, env rigenv.Env) string {
	t.Helper()
	id, err := client.CreateContainer(rigContext(t), docker.ContainerSpec{
		Config:  &container.Config{Image: env.Image(rigImage), Cmd: []string{"true"}},
		Host:    &container.HostConfig{NetworkMode: "none"},
		Network: &network.NetworkingConfig{}, Note: &ocinote.Note{Hostname: "noted"},
	})
	testutil.Must(t, err)
	return id
}
