package docker_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestRigShimWithoutTheProgram takes the program away while the shim runs a container. Commands in the container fail
// until the program is back. A shim that used another runc on PATH instead would give a command the groups of the
// image.
func TestRigShimWithoutTheProgram(t *testing.T) {
	env := rigenv.Require(t)
	bin := installShim(t, env)
	own := engine.ForTest(t, engine.Options{
		Env: env, Path: bin, Config: map[string]any{"runtimes": map[string]any{}},
	})
	client := dialOCI(t, own, docker.OCIRuntimeAuto)
	features := awaitOCI(t, client, worksIfThere)
	if !features.Supports("1.42") {
		return // this engine runs no shims by their names, see TestRigShimNeedsNoConfiguration
	}
	id := startNoted(t, env, client)
	if note, err := features.OCIRuntime.Notes.Load(id); err != nil || !filepath.IsAbs(note.Runtime.Path) {
		t.Errorf("the runtime in the note is %+v, %v", note.Runtime, err)
	}
	link := filepath.Join(filepath.Dir(bin), "libexec/criadapter/runc")
	testutil.Must(t, os.Rename(link, link+".away"))
	output, err := runIn(t, client, id, "id", "-G")
	testutil.Assert(t, !strings.HasPrefix(output, "0") && (err != nil || output != ""),
		"without the program a command says %q, %v", output, err)
	testutil.Must(t, os.Rename(link+".away", link))
	lookAtNoted(t, client, id)
	testutil.Must(t, client.RemoveContainer(rigContext(t), id))
}

// startNoted starts a container that has a note.
func startNoted(t *testing.T, env rigenv.Env, client *docker.Client) string {
	t.Helper()
	testutil.Must(t, client.PullImage(rigContext(t), env.Image(rigImage), docker.PullOptions{}))
	id, err := client.CreateContainer(rigContext(t), docker.ContainerSpec{
		Config: &container.Config{Image: env.Image(rigImage), Cmd: []string{"sleep", "1000"}, NetworkDisabled: true},
		Host:   &container.HostConfig{NetworkMode: "none"}, Network: &network.NetworkingConfig{},
		Note: &ocinote.Note{Hostname: "noted", Process: ocinote.Process{Groups: &[]uint32{4242}}},
	})
	if err == nil {
		err = client.StartContainer(rigContext(t), id)
	}
	testutil.Must(t, err)
	return id
}

// runIn runs a command in a container and returns all that it or the engine says.
func runIn(t *testing.T, client *docker.Client, id string, command ...string) (string, error) {
	t.Helper()
	opts := docker.ExecOptions{Command: command, Stdout: true, Stderr: true, TTY: true}
	execID, err := client.CreateExec(rigContext(t), id, opts)
	if err != nil {
		return "", err
	}
	stream, err := client.AttachExec(rigContext(t), execID, opts)
	if err != nil {
		return "", err
	}
	output, err := io.ReadAll(stream)
	return string(output), errors.Join(err, stream.Close())
}

// installShim installs the program as a package does, for a test that takes parts away. It returns the directory for
// PATH.
func installShim(t *testing.T, env rigenv.Env) string {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "shim")
	testutil.Must(t, err)
	testutil.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(filepath.Dir(env.OCIRuntime), ".."))))
	return filepath.Join(dir, "bin")
}
