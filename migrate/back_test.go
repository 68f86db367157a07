package migrate

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/logs"
)

// TestAHandBackThatWasCutShort hands back a container again after an interruption. Its log may have been renamed
// already, with no link in its place.
func TestAHandBackThatWasCutShort(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    bool
	}{
		"a log": {func(t *testing.T, path string) {
			testutil.WriteFile(t, path, "2026-01-01T00:00:00Z stdout F x\n")
		}, true},
		"a log that has moved": {func(*testing.T, string) {}, true},
		"no directory": {func(t *testing.T, path string) {
			testutil.Must(t, os.Remove(filepath.Dir(path)))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			id := f.sandbox(bound())
			path := filepath.Join(t.TempDir(), "app", "5.log")
			testutil.Must(t, os.Mkdir(filepath.Dir(path), 0o755))
			app := f.container("k8s_app_web_shop_u_5", map[string]string{
				translate.LabelKind: translate.LabelKindContainer, translate.LabelSandboxID: id,
				translate.LabelLogPath: path,
			}, &container.HostConfig{LogConfig: container.LogConfig{Type: logs.DriverJSONFile}})
			f.adopt()
			testutil.Must(t, f.engine.StartContainer(t.Context(), app))
			tc.prepare(t, path)
			plan, err := f.node.PlanReturn(t.Context())
			testutil.Must(t, err)
			testutil.Must(t, f.node.ApplyReturn(t.Context(), plan))
			inspect, err := f.engine.InspectContainer(t.Context(), app)
			testutil.Must(t, err)
			testutil.Equal(t, logs.LinkedTo(inspect.LogPath, path), tc.want, "linked")
		})
	}
}

// TestPodsWithoutASandboxContainerAreHandedBack hands back a pod whose sandbox container was pruned: cri-dockerd knows
// the pod by its checkpoint. A pod that never had a sandbox container is refused.
func TestPodsWithoutASandboxContainerAreHandedBack(t *testing.T) {
	f := newFixture(t)
	id := f.sandbox(&container.HostConfig{NetworkMode: "host"})
	f.adopt()
	testutil.Must(t, f.engine.RemoveContainer(t.Context(), id))
	apply := func() error {
		plan, err := f.node.PlanReturn(t.Context())
		testutil.Must(t, err)
		return errors.Join(plan.Print(io.Discard), f.node.ApplyReturn(t.Context(), plan))
	}
	testutil.Must(t, apply())
	shim, err := f.node.readCheckpoint(id)
	testutil.Assert(t, err == nil && shim != nil && shim.Name == "web" && shim.Data.HostNetwork,
		"cri-dockerd's checkpoint is %+v, %v", shim, err)
	held := checkpoint.Record{
		SandboxID: strings.Repeat("a", idLength), Name: "held", Namespace: "shop", Phase: checkpoint.PhaseReady,
		Config: json.RawMessage("{}"), Namespaces: &checkpoint.Namespaces{Dir: t.TempDir()},
	}
	testutil.Must(t, f.opts.Store.Save(t.Context(), held))
	if err := apply(); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "shop/held") {
		t.Errorf("with a pod that the kernel holds: %v", err)
	}
}

// TestHandBackToOurOwnRoot: criadapter has cri-dockerd's flag --cri-dockerd-root-directory, too, so both programs may
// have used one root directory. Without the checkpoint there, cri-dockerd would not remove the rules of the pod's host
// ports.
func TestHandBackToOurOwnRoot(t *testing.T) {
	for name, shared := range map[string]bool{"shared": true, "of its own": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.OwnRoot = t.TempDir()
			f.node = New(f.opts)
			if shared {
				testutil.Must(t, os.Mkdir(filepath.Join(f.opts.OwnRoot, shimDir), 0o755))
			}
			id := f.sandbox(bound())
			f.adopt()
			plan, err := f.node.PlanReturn(t.Context())
			testutil.Must(t, err)
			testutil.Must(t, f.node.ApplyReturn(t.Context(), plan))
			_, err = os.Stat(filepath.Join(f.opts.RootDirectories[0], shimDir, id))
			testutil.Check(t, err)
			_, err = os.Stat(filepath.Join(f.opts.OwnRoot, shimDir, id))
			testutil.Assert(t, shared == (err == nil), "the checkpoint in our root: %v", err)
		})
	}
}
