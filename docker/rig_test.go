package docker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// startEngine starts an engine without images for one test. It returns the engine, and an env for the engine.
func startEngine(t *testing.T, env rigenv.Env, config map[string]any) (*engine.Engine, rigenv.Env) {
	t.Helper()
	own := engine.ForTest(t, engine.Options{Env: env, Config: config})
	return own, own.Use(env)
}

// TestAbsence kills a real engine and starts it again.
func TestAbsence(t *testing.T) {
	own, env := startEngine(t, rigenv.Require(t), map[string]any{"live-restore": true})
	subject := dockertest.Subject{
		Engine: dialRig(t, env), Image: env.Image(rigImage), Pullable: env.Image("test/multi:a"),
		Prefix: uniquePrefix("absence"),
	}
	dockertest.ConformanceAbsence(t, subject, own.Kill, func(pid int) {
		testutil.Must(t, syscall.Kill(pid, syscall.SIGKILL))
		testutil.Until(t, "the shim has reaped the process", func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
	}, func() { testutil.Must(t, own.Start(rigContext(t))) })
}

// TestFeaturesOfTheRig compares the client's Features with the rig's own facts about its engine.
func TestFeaturesOfTheRig(t *testing.T) {
	env := rigenv.Require(t)
	features, err := dialRig(t, env).Features(rigContext(t))
	testutil.Must(t, err)
	testutil.Assert(t, features.Root == env.DockerRoot && features.NegativeOOMScore == env.NegativeOOM &&
		features.Seccomp, "%+v, but the rig is %+v", features, env)
}

// TestSystemFeatures compares the Features of the installed engine with the rig's facts. Another program may serve the
// engine's socket.
func TestSystemFeatures(t *testing.T) {
	env := rigenv.RequireSystem(t)
	c, err := docker.Dial(docker.Options{Host: env.DockerHost})
	testutil.Must(t, err)
	defer func() { _ = c.Close() }()
	features, err := c.Features(rigContext(t))
	testutil.Must(t, err)
	testutil.Assert(t, features.NegativeOOMScore == env.NegativeOOM && features.Root == env.DockerRoot,
		"%+v, but the rig is %+v", features, env)
}

func TestPullWithCredentials(t *testing.T) {
	env := rigenv.Require(t)
	c := dialRig(t, env)
	ref := env.AuthRegistry + "/test/hello:latest"
	for name, auth := range map[string]*docker.Auth{
		"none": nil, "wrong": {Username: rigenv.RegistryUser, Password: "wrong"},
	} {
		err := c.PullImage(rigContext(t), ref, docker.PullOptions{Auth: auth})
		testutil.Assert(t, errors.Is(err, errdefs.ErrUnauthenticated), "with %s: %v", name, err)
	}
	auth := &docker.Auth{Username: rigenv.RegistryUser, Password: rigenv.RegistryPassword}
	testutil.Must(t, c.PullImage(rigContext(t), ref, docker.PullOptions{Auth: auth}), "with the right ones")
	testutil.Check(t, c.RemoveImage(rigContext(t), ref))
}

// TestPullFromRegistryInTrouble checks that a failed pull leaves no image, and checks the type of its error.
func TestPullFromRegistryInTrouble(t *testing.T) {
	// The shared engine may have layers from other tests' pulls.
	_, env := startEngine(t, rigenv.Require(t), nil)
	c := dialRig(t, env)
	for ref, want := range map[string]error{
		env.Image(rigenv.PrefixUnavailable + "/test/big:latest"): docker.ErrRegistryUnavailable,
		env.Image(rigenv.PrefixLimited + "/test/big:latest"):     errdefs.ErrResourceExhausted,
		// Engines and registries return the same error for a denied and for a missing repository.
		env.Image(rigenv.PrefixForbidden + "/test/big:latest"): nil,
		env.Image(rigenv.PrefixNoBlobs + "/test/big:latest"):   nil,
		env.Image(rigenv.PrefixCorrupt + "/test/big:latest"):   nil,
		"127.0.0.1:1/test/big:latest":                          docker.ErrRegistryUnavailable,
		env.Image("test/absent:latest"):                        errdefs.ErrNotFound,
	} {
		err := c.PullImage(rigContext(t), ref, docker.PullOptions{})
		testutil.Assert(t, err != nil && (want == nil || errors.Is(err, want)) && !errdefs.IsUnavailable(err),
			"PullImage %s: got %v, want %v", ref, err, want)
		_, err = c.InspectImage(rigContext(t), ref)
		testutil.Fails(t, err, errdefs.IsNotFound, "after the pull of %s", ref)
	}
}

// TestPullCancelled checks that a stalled transfer ends with its caller.
func TestPullCancelled(t *testing.T) {
	_, env := startEngine(t, rigenv.Require(t), nil)
	c := dialRig(t, env)
	ctx, cancel := context.WithCancel(rigContext(t))
	defer cancel()
	var signs atomic.Int64
	began := time.AfterFunc(time.Minute, cancel)
	defer began.Stop()
	err := c.PullImage(ctx, env.Image(rigenv.PrefixStalled+"/test/big:latest"),
		docker.PullOptions{Progress: func(docker.PullPhase) {
			if signs.Add(1) == 1 {
				began.Reset(500 * time.Millisecond)
			}
		}})
	testutil.Assert(t, errors.Is(err, context.Canceled) && signs.Load() != 0,
		"after %d progress reports: %v", signs.Load(), err)
}

// TestAnonymousVolumesGo shows that the removal of a container removes its anonymous volumes, too.
func TestAnonymousVolumesGo(t *testing.T) {
	env := rigenv.Require(t)
	c := dialRig(t, env)
	id, err := c.CreateContainer(rigContext(t), docker.ContainerSpec{
		Name:   uniquePrefix("volume"),
		Config: &container.Config{Image: env.Image(rigImage), Volumes: map[string]struct{}{"/data": {}}},
		Host:   &container.HostConfig{NetworkMode: "none"},
	})
	testutil.Must(t, err)
	seen, err := c.InspectContainer(rigContext(t), id)
	testutil.Require(t, err == nil && len(seen.Mounts) == 1 && seen.Mounts[0].Name != "",
		"the container's mounts are %+v, %v", seen, err)
	testutil.Must(t, c.RemoveContainer(rigContext(t), id))
	api, err := client.New(client.WithHost(env.DockerHost))
	testutil.Must(t, err)
	defer func() { _ = api.Close() }()
	_, err = api.VolumeInspect(rigContext(t), seen.Mounts[0].Name, client.VolumeInspectOptions{})
	testutil.Fails(t, err, errdefs.IsNotFound, "the volume is still there")
}

// TestInitialIdentityOfARealContainer compares the identity in the shim's directory with the container's configuration.
func TestInitialIdentityOfARealContainer(t *testing.T) {
	env := rigenv.Require(t)
	c := dialRig(t, env)
	id, err := c.CreateContainer(rigContext(t), docker.ContainerSpec{
		Name:   uniquePrefix("identity"),
		Config: &container.Config{Image: env.Image(rigImage), Cmd: []string{"sleep", "600"}, User: "1234:4321"},
		Host:   &container.HostConfig{NetworkMode: "none", GroupAdd: []string{"77"}},
	})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.RemoveContainer(rigContext(t), id) })
	testutil.Must(t, c.StartContainer(rigContext(t), id))
	seen, err := c.InspectContainer(rigContext(t), id)
	testutil.Must(t, err)
	got, err := docker.InitialIdentity(id, seen.State.Pid)
	testutil.Assert(t, err == nil && got.UID == 1234 && got.GID == 4321 && slices.Contains(got.Groups, 77),
		"got %+v, %v", got, err)
}
