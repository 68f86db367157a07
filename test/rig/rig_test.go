package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// dial returns a client of the rig's engine and a context that ends before the test's time is up.
func dial(t *testing.T, env rigenv.Env) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	t.Cleanup(cancel)
	cli, err := client.New(client.WithHost(env.DockerHost))
	testutil.Must(t, err)
	t.Cleanup(func() { cli.Close() })
	return ctx, cli
}

// pull pulls ref and waits for the end. It returns the engine's error, whether the call or its stream reports it.
func pull(ctx context.Context, cli *client.Client, ref string, opts client.ImagePullOptions) error {
	response, err := cli.ImagePull(ctx, ref, opts)
	if err != nil {
		return err
	}
	defer response.Close()
	return response.Wait(ctx)
}

func mustPull(t *testing.T, ctx context.Context, cli *client.Client, ref string) {
	t.Helper()
	testutil.Must(t, pull(ctx, cli, ref, client.ImagePullOptions{}), "pull "+ref)
}

// runContainer runs a command in the rig's busybox and returns the command's output.
func runContainer(t *testing.T, env rigenv.Env, host container.HostConfig, command ...string) string {
	t.Helper()
	ctx, cli := dial(t, env)
	ref := env.Image(busybox)
	mustPull(t, ctx, cli, ref)
	created, err := cli.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: ref, Cmd: command, NetworkDisabled: true},
		HostConfig: &host,
	})
	testutil.Must(t, err)
	t.Cleanup(func() {
		_, err := cli.ContainerRemove(context.WithoutCancel(ctx), created.ID,
			client.ContainerRemoveOptions{Force: true})
		testutil.Check(t, err)
	})
	_, err = cli.ContainerStart(ctx, created.ID, client.ContainerStartOptions{})
	testutil.Must(t, err)
	logs, err := cli.ContainerLogs(ctx, created.ID,
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	testutil.Must(t, err)
	defer logs.Close()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, logs)
	testutil.Must(t, err)
	return strings.TrimSpace(out.String())
}

const busybox = "test/busybox:latest"

func TestPrivateEngineHasItsOwnRoot(t *testing.T) {
	env := rigenv.Require(t)
	ctx, cli := dial(t, env)
	answer, err := cli.Info(ctx, client.InfoOptions{})
	testutil.Must(t, err)
	testutil.Assert(t, answer.Info.DockerRootDir == env.DockerRoot,
		"its root is %s, want %s", answer.Info.DockerRootDir, env.DockerRoot)
	_, err = os.Stat(filepath.Join(env.DockerRoot, "containers"))
	testutil.Check(t, err, "the engine's root is not visible")
}

func TestNegativeOOMScore(t *testing.T) {
	env := rigenv.Require(t)
	want := "0"
	if env.NegativeOOM {
		want = "-998"
	}
	got := runContainer(t, env, container.HostConfig{OomScoreAdj: -998}, "cat", "/proc/self/oom_score_adj")
	testutil.Assert(t, got == want, "oom_score_adj = %s, want %s", got, want)
}

func TestPrivilegedContainer(t *testing.T) {
	env := rigenv.Require(t)
	got := runContainer(t, env, container.HostConfig{Privileged: true}, "sh", "-c",
		"mount -t tmpfs none /tmp && grep -c '^none /tmp ' /proc/mounts")
	testutil.Assert(t, got == "1", "a privileged container could not mount: %q", got)
}

func TestRegistryWithAccount(t *testing.T) {
	env := rigenv.Require(t)
	ctx, cli := dial(t, env)
	ref := env.AuthRegistry + "/" + busybox
	err := pull(ctx, cli, ref, client.ImagePullOptions{})
	testutil.Assert(t, err != nil, "pulled without an account")
	account, err := json.Marshal(registry.AuthConfig{Username: rigenv.RegistryUser, Password: rigenv.RegistryPassword})
	testutil.Must(t, err)
	opts := client.ImagePullOptions{RegistryAuth: base64.URLEncoding.EncodeToString(account)}
	testutil.Check(t, pull(ctx, cli, ref, opts), "with the account")
}

// TestRegistryInTrouble starts its own engine, because an engine that has the layers already does not fetch them.
func TestRegistryInTrouble(t *testing.T) {
	env := rigenv.Require(t)
	env.DockerHost = engine.ForTest(t, engine.Options{Env: env}).Host()

	// This pull comes first, because containerd continues a partial blob, corrupt or not.
	t.Run(rigenv.PrefixStalled, func(t *testing.T) {
		_, cli := dial(t, env)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := pull(ctx, cli, env.Image(rigenv.PrefixStalled+"/"+busybox), client.ImagePullOptions{})
		testutil.Assert(t, err != nil && ctx.Err() != nil, "the pull ended by itself: %v", err)
	})
	for _, prefix := range []string{rigenv.PrefixCorrupt, rigenv.PrefixNoBlobs, rigenv.PrefixUnavailable} {
		t.Run(prefix, func(t *testing.T) {
			ctx, cli := dial(t, env)
			err := pull(ctx, cli, env.Image(prefix+"/"+busybox), client.ImagePullOptions{})
			testutil.Assert(t, err != nil, "the pull succeeded")
		})
	}
}

func TestWorkDirCanBeMountedWithPropagation(t *testing.T) {
	env := rigenv.Require(t)
	for _, mode := range []string{"rslave", "rshared"} {
		t.Run(mode, func(t *testing.T) {
			got := runContainer(t, env, container.HostConfig{Binds: []string{env.WorkDir + ":/tmp:" + mode}},
				"grep", " /tmp ", "/proc/self/mountinfo")
			want := map[string]string{"rslave": " master:", "rshared": " shared:"}[mode]
			testutil.Assert(t, strings.Contains(got, want), "mounted as %q, want%s", got, want)
		})
	}
}
