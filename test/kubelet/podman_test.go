package kubelet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/kubelet/podman"
)

// TestPodmanManifests plays the manifests of podman's own tests, several at once. Each manifest must have a row in the
// report, and must end as the row says. Other manifests that it needs, such as Secrets, are played with it.
func TestPodmanManifests(t *testing.T) {
	version := os.Getenv("PODMAN")
	if version == "" {
		t.Skip("make podman-manifests runs it")
	}
	source, err := gomod.Download(t.Context(), t.TempDir(), podman.Module+"@"+version)
	testutil.Must(t, err)
	manifests, err := podman.Manifests(filepath.Join(source.Dir, podman.File),
		map[string]string{"CITEST_IMAGE": "SHELL", "NGINX_IMAGE": "HELLO"})
	testutil.Must(t, err)
	rows, err := podman.Report("../../docs/reports/podman-manifests.md")
	testutil.Must(t, err)
	for name := range rows {
		testutil.Assert(t, manifests[name] != "", "the report has the manifest %s, which podman's tests lack", name)
	}
	for name, text := range manifests {
		row, known := rows[name]
		testutil.Assert(t, known, "the report lacks %s", name)
		t.Run(name, func(t *testing.T) {
			n := prepareNode(t)
			played := text
			for _, other := range row.With {
				played += "\n---\n" + manifests[other]
			}
			output, code := n.playBriefly(played)
			testutil.Assert(t, row.Fits(code, output), "exit code %d, want %q:\n%s", code, row.Outcome, output)
			if code == 0 {
				n.down()
			}
			n.nothingLeft()
		})
	}
}

// playBriefly plays a text until its pods are ready or it fails, and returns the output and exit code.
func (n *node) playBriefly(text string) (string, int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	play := exec.CommandContext(ctx, n.program, n.playArgs("play", "--detach", n.playFile(text))...)
	play.Cancel = func() error { return play.Process.Signal(os.Interrupt) }
	output, err := play.CombinedOutput()
	if err != nil && play.ProcessState == nil {
		n.t.Fatal(err)
	}
	return fmt.Sprintf("%s%v\n", output, ctx.Err()), play.ProcessState.ExitCode()
}
