package pause_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// The image is loaded, runs as a sandbox does, and stops. It is left loaded:
// tests of other packages on the same engine may be using it.
func TestImageRunsOnAnEngine(t *testing.T) {
	env := rigenv.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	cli, err := client.New(client.WithHost(env.DockerHost))
	testutil.Must(t, err)
	t.Cleanup(func() { cli.Close() })
	info, err := cli.Info(ctx, client.InfoOptions{})
	testutil.Must(t, err)
	t.Logf("Docker Engine %s", info.Info.ServerVersion)
	arch, ok := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[info.Info.Architecture]
	testutil.Require(t, ok, "no sandbox image for the engine's architecture %s", info.Info.Architecture)
	for range 2 { // the second load finds everything there
		load(ctx, t, cli, arch)
	}
	requireID(ctx, t, cli, arch)
	stop(ctx, t, cli, run(ctx, t, cli))
}

func load(ctx context.Context, t *testing.T, cli *client.Client, arch string) {
	t.Helper()
	archive, err := pause.Archive(arch)
	testutil.Must(t, err)
	answer, err := cli.ImageLoad(ctx, bytes.NewReader(archive), client.ImageLoadWithQuiet(true))
	testutil.Must(t, err)
	defer answer.Close()
	if text, err := io.ReadAll(answer); err != nil || !bytes.Contains(text, []byte(pause.Reference)) {
		t.Errorf("the engine answered %q (%v), want that it loaded %s", text, err, pause.Reference)
	}
}

// requireID checks that the image has an id that the package predicts. The engine's image store decides whether that is
// the digest of the config or of the manifest.
func requireID(ctx context.Context, t *testing.T, cli *client.Client, arch string) {
	t.Helper()
	config, err := pause.ConfigDigest(arch)
	testutil.Must(t, err)
	manifest, err := pause.ManifestDigest(arch)
	testutil.Must(t, err)
	image, err := cli.ImageInspect(ctx, pause.Reference)
	testutil.Must(t, err)
	if image.ID != config && image.ID != manifest {
		t.Errorf("the image's id is %s, want %s or %s", image.ID, config, manifest)
	}
	if len(image.Config.Labels) != 0 || len(image.Config.Volumes) != 0 || image.Config.Healthcheck != nil {
		t.Errorf("the image's config is %+v", image.Config)
	}
}

// run starts a container of the image and returns its id.
func run(ctx context.Context, t *testing.T, cli *client.Client) string {
	t.Helper()
	created, err := cli.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: pause.Reference, NetworkDisabled: true},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	testutil.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), testutil.Patience)
		defer cancel()
		options := client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}
		if _, err := cli.ContainerRemove(ctx, created.ID, options); err != nil {
			t.Error(err)
		}
	})
	if _, err := cli.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	started, err := cli.ContainerInspect(ctx, created.ID, client.ContainerInspectOptions{})
	testutil.Must(t, err)
	testutil.Require(t, started.Container.State.Running, "the container does not run: %+v", started.Container.State)
	stat := fmt.Sprintf("/proc/%d/stat", started.Container.State.Pid)
	testutil.Until(t, "the program waits for signals", func() bool { return sleeps(t, stat) })
	return created.ID
}

// sleeps says whether the program waits, see proc_pid_stat(5): it sleeps only in rt_sigtimedwait. Signals that come
// before the program blocks them are lost: the kernel drops them for the first process of a PID namespace.
func sleeps(t *testing.T, stat string) bool {
	t.Helper()
	return strings.Contains(testutil.ReadFile(t, stat), " (pause) S ")
}

// stop stops the container. The program ends at once, so it is not killed.
func stop(ctx context.Context, t *testing.T, cli *client.Client, id string) {
	t.Helper()
	grace := 20 // seconds
	if _, err := cli.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &grace}); err != nil {
		t.Fatal(err)
	}
	stopped, err := cli.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	testutil.Must(t, err)
	testutil.Equal(t, stopped.Container.State.ExitCode, 0, "the exit code")
}
