package docker_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// The engine's detach keys would hold back a shell's ctrl-p until the next key.
func TestTerminalGetsEveryKeyAtOnce(t *testing.T) {
	env := rigenv.Require(t)
	client := dialRig(t, env)
	ctx := rigContext(t)
	// The shell writes "ready", and then cat echoes each byte.
	echo := "stty raw -echo; echo ready; exec cat"
	id, err := client.CreateContainer(ctx, docker.ContainerSpec{
		Name: uniquePrefix("keys"),
		Config: &container.Config{Image: env.Image(rigImage), Cmd: []string{"sh", "-c", "sleep 1; " + echo}, Tty: true,
			OpenStdin: true},
	})
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, client.RemoveContainer(rigContext(t), id))
	})
	testutil.Must(t, client.StartContainer(ctx, id))
	attached, err := client.AttachContainer(ctx, id, docker.AttachOptions{Stdin: true, Stdout: true})
	testutil.Must(t, err)
	opts := docker.ExecOptions{Command: []string{"sh", "-c", echo}, TTY: true, Stdin: true, Stdout: true}
	execID, err := client.CreateExec(ctx, id, opts)
	testutil.Must(t, err)
	executed, err := client.AttachExec(ctx, execID, opts)
	testutil.Must(t, err)
	for name, stream := range map[string]docker.Stream{"attach": attached, "exec": executed} {
		readUntil(t, stream, "ready")
		for key := byte(1); key < 32; key++ { // NUL begins noDetachKeys
			_, err := stream.Write([]byte{key})
			testutil.Must(t, err)
			testutil.Assert(t, readUntil(t, stream, string(key)) != "", "%s: key %d does not arrive", name, key)
		}
		_ = stream.Close()
	}
}

// readUntil returns the output up to and including text, or "" if text does not come within ten seconds.
func readUntil(t *testing.T, stream io.Reader, text string) string {
	t.Helper()
	found := make(chan string, 1)
	go func() {
		var got bytes.Buffer
		piece := make([]byte, 1)
		for !bytes.Contains(got.Bytes(), []byte(text)) {
			if _, err := stream.Read(piece); err != nil {
				found <- ""
				return
			}
			got.Write(piece)
		}
		found <- got.String()
	}()
	select {
	case got := <-found:
		return got
	case <-time.After(10 * time.Second):
		return ""
	}
}
