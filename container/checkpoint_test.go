package container

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/container/dump"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// newDumpNode returns a node on a fake Docker 29 with a data directory, and that engine.
func newDumpNode(t *testing.T) (*node, *dockertest.Engine) {
	t.Helper()
	return newNodeOn(t, dockertest.Options{
		Flavor: dockertest.Docker29, Features: dockertest.DefaultFeatures(dockertest.Docker29),
	})
}

// withFiles gives a running container a root with changed files, which the engine lists.
func (n *node) withFiles(engine *dockertest.Engine, id string) {
	n.t.Helper()
	n.proc = n.t.TempDir()
	root := filepath.Join(n.proc, strconv.Itoa(n.look(id).Status.PID), "root")
	testutil.WriteFile(n.t, filepath.Join(root, "etc/new"),
		"content of "+n.look(id).Meta.Config.GetMetadata().GetName())
	testutil.WriteFile(n.t, filepath.Join(root, "etc/hosts"), "the node's")
	testutil.Must(n.t, os.Symlink("/nowhere", filepath.Join(root, "link")))
	testutil.WriteFile(n.t, filepath.Join(root, "run/secret"), "of a mount at /var/run/secret")
	testutil.WriteFile(n.t, filepath.Join(filepath.Dir(root), "mountinfo"),
		"1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /run/secret ro - tmpfs tmpfs rw\n")
	engine.SetChanges(id, api.FilesystemChange{Path: "/etc"},
		api.FilesystemChange{Path: "/etc/new", Kind: api.ChangeAdd},
		api.FilesystemChange{Path: "/link", Kind: api.ChangeAdd},
		api.FilesystemChange{Path: "/gone", Kind: api.ChangeAdd},
		api.FilesystemChange{Path: "/run/secret", Kind: api.ChangeAdd},
		api.FilesystemChange{Path: "/etc/hosts", Kind: api.ChangeAdd})
}

func TestCheckpointArchive(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.running("sleep")
	n.withFiles(engine, id)
	location := filepath.Join(t.TempDir(), "checkpoint.tar")
	testutil.Must(t, n.Checkpoint(t.Context(), id, location))
	info, err := os.Stat(location)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o600, "the archive is %v, %v", info, err)
	archive, err := os.Open(location)
	testutil.Must(t, err)
	defer archive.Close()
	files := testutil.Untar(t, archive)
	for name, want := range map[string]string{
		"config.dump": `"id": "` + id, "spec.dump": "{}", "status.dump": `"id":"` + id, "cri.dump": `"sleep"`,
		"checkpoint/inventory.img": id,
	} {
		testutil.Assert(t, strings.Contains(files[name], want), "%s is %q, want %s in it", name, files[name], want)
	}
	changed := testutil.Untar(t, strings.NewReader(files["rootfs-diff.tar"]))
	testutil.Assert(t, len(changed) == 3 && strings.HasPrefix(changed["etc/new"], "content of") &&
		changed["link"] == "-> /nowhere", "the changed files are %q", changed)
	left, err := os.ReadDir(filepath.Dir(location))
	testutil.Assert(t, err == nil && len(left) == 1, "beside the archive there is %v, %v", left, err)
	n.wantState(id, running)
}

func TestCheckpointRefuses(t *testing.T) {
	n, engine := newFakeNode(t)
	dir := t.TempDir()
	id := n.create(n.pod(), n.config("sleep"))
	err := n.Checkpoint(t.Context(), id, filepath.Join(dir, "a.tar"))
	testutil.Assert(t, errdefs.IsFailedPrecondition(err), "a container that does not run: %v", err)
	n.start(id)
	n.withFiles(engine, id)
	err = n.Checkpoint(t.Context(), id, "a.tar")
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), "location: "),
		"a relative path: %v", err)
	engine.Inject("CreateCheckpoint", dockertest.Fault{Err: errdefs.ErrInternal.WithMessage("criu failed"), Times: 1})
	testutil.Fails(t, n.Checkpoint(t.Context(), id, filepath.Join(dir, "a.tar")), errdefs.IsInternal,
		"the engine fails")
	left, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(left) == 0, "after errors the directory has %v, %v", left, err)
}

func TestCheckpointAllPausesAll(t *testing.T) {
	n, engine := newDumpNode(t)
	pod := n.pod()
	var ids []string
	for _, name := range []string{"a", "b"} {
		config := n.config("sleep")
		config.Metadata.Name = name
		ids = append(ids, n.create(pod, config))
		n.start(ids[len(ids)-1])
	}
	n.proc = t.TempDir()
	for _, id := range ids {
		testutil.WriteFile(t, filepath.Join(n.proc, strconv.Itoa(n.look(id).Status.PID), "root", "x"), "")
	}
	dir := t.TempDir()
	testutil.Must(t, n.CheckpointAll(t.Context(), pod, ids, dir))
	calls := slices.DeleteFunc([]string{"PauseContainer", "CreateCheckpoint", "UnpauseContainer"},
		func(call string) bool { return engine.Calls(call) == 2 })
	testutil.Assert(t, len(calls) == 0, "not called for each container: %v", calls)
	for i, name := range []string{"a", "b"} {
		kept, err := dump.Read(filepath.Join(dir, name))
		testutil.Assert(t, err == nil && kept.Config.ID == ids[i], "%s: %+v, %v", name, kept.Config, err)
	}
	for call, fault := range map[string]dockertest.Fault{
		"CreateCheckpoint": {Err: errdefs.ErrInternal.WithMessage("criu failed"), Times: 1},
		"PauseContainer":   {AfterEffect: true, Times: 1}, // the engine pauses it, and its answer is lost
	} {
		engine.Inject(call, fault)
		testutil.Assert(t, n.CheckpointAll(t.Context(), pod, ids, t.TempDir()) != nil, "CheckpointAll hides the error")
		for _, id := range ids {
			inspect, err := engine.InspectContainer(t.Context(), id)
			testutil.Assert(t, err == nil && !inspect.State.Paused, "after an error of %s a container is paused: %v",
				call, err)
		}
	}
	paused, above, again := engine.Calls("PauseContainer"), n.config("sleep"), withAttempt(n.config("sleep"), 1)
	above.Metadata.Name, again.Metadata.Name = "..", "a"
	for name, wrong := range map[string][]string{"none": nil, "twice": {ids[0], ids[0]},
		"one name":      {ids[0], n.started(pod, again)},
		"another pod's": {n.running("sleep")}, "no name of a directory": {ids[0], n.started(pod, above)}} {
		err := n.CheckpointAll(t.Context(), pod, wrong, t.TempDir())
		testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), "container_ids"),
			"%s: %v", name, err)
	}
	testutil.Equal(t, engine.Calls("PauseContainer"), paused, "pauses with a refused request")
}

// checkpointed returns the directory with the checkpoint of a container that runs sleep and has files of its own.
func (n *node) checkpointed(engine *dockertest.Engine) (dir string) {
	n.t.Helper()
	pod, config := n.pod(), n.config("sleep")
	id := n.started(pod, config)
	n.withFiles(engine, id)
	pods := n.t.TempDir()
	testutil.Must(n.t, n.CheckpointAll(n.t.Context(), pod, []string{id}, pods))
	return filepath.Join(pods, config.GetMetadata().GetName())
}

func TestRestore(t *testing.T) {
	n, engine := newDumpNode(t)
	from := n.checkpointed(engine)
	again := n.pod()
	other := n.config("sleep", "1")
	_, err := n.Restore(t.Context(), again, other, nil, from)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "command"),
		"another process: %v", err)
	other = n.config("sleep")
	other.Linux = &runtimeapi.LinuxContainerConfig{
		SecurityContext: &runtimeapi.LinuxContainerSecurityContext{ReadonlyRootfs: true}}
	_, err = n.Restore(t.Context(), again, other, nil, from)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "readonly_rootfs"),
		"a read-only root, unlike the checkpoint's: %v", err)
	other = n.config("sleep")
	other.Mounts = append(other.Mounts, &runtimeapi.Mount{ContainerPath: "/data", HostPath: t.TempDir()})
	_, err = n.Restore(t.Context(), again, other, nil, from)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "mounts"), "a mount: %v", err)
	restored, err := n.Restore(t.Context(), again, n.config("sleep"), nil, from)
	testutil.Must(t, err)
	n.wantState(restored, runtimeapi.ContainerState_CONTAINER_CREATED)
	files := testutil.Untar(t, bytes.NewReader(engine.Copied(restored, "/")))
	testutil.Assert(t, strings.HasPrefix(files["etc/new"], "content of"), "the files that were copied are %q", files)
	n.restart(func() {}) // the record names the checkpoint that Start restores
	n.start(restored)
	testutil.Assert(t, engine.Calls("RestoreContainer") == 1, "Start did not restore the checkpoint")
	place, err := n.restoreDir(t.Context(), restored)
	testutil.Must(t, err)
	_, err = os.Stat(place)
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "the copy of the memory after the start: %v", err)
	_, err = n.Restore(t.Context(), again, n.config("sleep"), nil, t.TempDir())
	testutil.Fails(t, err, errdefs.IsInvalidArgument, "no checkpoint")
}

// Restore copies files into a container with a read-only root only below the volumes that its image declares.
func TestRestoreOfVolumes(t *testing.T) {
	n, engine := newNodeOn(t, dockertest.Options{
		Flavor: dockertest.Docker29, Features: dockertest.DefaultFeatures(dockertest.Docker29),
	}, dockertest.Image{Names: []string{"database"}, Volumes: []string{"/var/data"}})
	config := n.config("sleep")
	config.Image.Image = "database"
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/var/data/mounted", HostPath: t.TempDir()}}
	config.Linux = &runtimeapi.LinuxContainerConfig{
		SecurityContext: &runtimeapi.LinuxContainerSecurityContext{ReadonlyRootfs: true},
	}
	pod := n.pod()
	id := n.started(pod, config)
	n.withFiles(engine, id)
	volumes, err := n.declaredVolumes(t.Context(), id)
	testutil.Assert(t, err == nil && len(volumes) == 1, "volumes: %v, %v", volumes, err)
	testutil.WriteFile(t, filepath.Join(volumes[0].Source, "table"), "rows")
	testutil.WriteFile(t, filepath.Join(volumes[0].Source, "mounted"), "the place of a mount")
	testutil.Must(t, os.Chmod(volumes[0].Source, 0o710))
	pods := t.TempDir()
	testutil.Must(t, n.CheckpointAll(t.Context(), pod, []string{id}, pods))
	restored, err := n.Restore(t.Context(), n.pod(), config, nil, filepath.Join(pods, config.GetMetadata().GetName()))
	testutil.Must(t, err)
	files := testutil.Untar(t, bytes.NewReader(engine.Copied(restored, "/var/data")))
	_, mounted := files["mounted"]
	testutil.Assert(t, files["table"] == "rows" && !mounted, "the volume's files are %q", files)
	volumes, err = n.declaredVolumes(t.Context(), restored)
	testutil.Must(t, err)
	info, err := os.Stat(volumes[0].Source)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o710, "the volume is %v, %v", info, err)
}

// A new volume has files of the image, some of which the container may have removed.
func TestClearDir(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "below", "file"), "")
	testutil.Must(t, clearDir(dir))
	left, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(left) == 0, "left over: %v, %v", left, err)
	testutil.Must(t, clearDir(filepath.Join(dir, "gone")))
}

// If Restore cannot copy the files into a new container, it calls UndoContainer of the plugins and removes the
// container.
func TestRestoreThatFailsLeavesNothing(t *testing.T) {
	n, engine := newDumpNode(t)
	from := n.checkpointed(engine)
	a := &accounting{n: n, has: map[string]bool{}}
	n.opts.Plugins = a
	engine.Inject("CopyToContainer", dockertest.Fault{Err: errdefs.ErrInternal, Times: 1})
	again := n.pod()
	_, err := n.Restore(t.Context(), again, n.config("sleep"), nil, from)
	testutil.Fails(t, err, errdefs.IsInternal, "Restore")
	testutil.Equal(t, len(a.has), 0, "containers that plugins have")
	n.wantNothing(again)
}

// TestWhiteout checks the device file with which overlayfs hides a file of a lower layer.
func TestWhiteout(t *testing.T) {
	dir := t.TempDir()
	layer, err := os.OpenRoot(dir)
	testutil.Must(t, err)
	defer layer.Close()
	for range 2 {
		testutil.Must(t, whiteout(layer, "usr/bin/gone"))
	}
	var stat unix.Stat_t
	err = unix.Lstat(filepath.Join(dir, "usr/bin/gone"), &stat)
	testutil.Assert(t, err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR && stat.Rdev == 0, "%+v, %v", stat, err)
}
