package podconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

func podText(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n",
		name, image)
}

// podIn returns a pod of a namespace, for reading objects.
func podIn(namespace string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
}

// files is a FileSource of a temporary directory that the test scans.
type files struct {
	*FileSource
	t        *testing.T
	config   *PodConfig
	objects  *Objects
	problems map[string]error
}

func newFiles(t *testing.T, restored ...*v1.Pod) *files {
	f := &files{t: t, config: New(Options{}), objects: NewObjects(), problems: map[string]error{}}
	dir := t.TempDir()
	for _, pod := range restored {
		pod.Annotations[model.AnnotationManifest] = filepath.Join(dir, pod.Annotations[model.AnnotationManifest])
	}
	f.FileSource = NewFileSource(FileOptions{Dir: dir, NodeName: "n", Problem: func(path string, err error) {
		f.problems[filepath.Base(path)] = err
	}}, f.config, f.objects, restored)
	return f
}

func (f *files) write(name, text string) {
	f.t.Helper()
	testutil.Must(f.t, os.WriteFile(filepath.Join(f.opts.Dir, name), []byte(text), 0o644))
}

// images scans and returns the images of all pods by name.
func (f *files) images() map[string]string {
	f.t.Helper()
	testutil.Must(f.t, f.scan(f.t.Context()))
	drain(f.config)
	images := map[string]string{}
	for _, pod := range f.config.storage.accepted[model.SourceFile] {
		images[strings.TrimSuffix(pod.Name, "-n")] = pod.Spec.Containers[0].Image
	}
	return images
}

func (f *files) want(what string, images map[string]string) {
	f.t.Helper()
	got := f.images()
	testutil.Assert(f.t, maps.Equal(got, images), "%s: %v, want %v", what, got, images)
}

func TestFileFiles(t *testing.T) {
	f := newFiles(t)
	f.write("a.yaml", podText("a", "1")+"---\n"+podText("b", "1"))
	f.write("c.yml", podText("c", "1"))
	f.write("d.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"d"},"spec":{"containers":[{"name":"c","image":"1"}]}}`)
	f.write(".hidden.yaml", podText("hidden", "1"))
	f.write("backup.yaml~", podText("backup", "1"))
	testutil.Must(t, os.Mkdir(filepath.Join(f.opts.Dir, "dir.yaml"), 0o755))
	testutil.Must(t, os.Symlink("nowhere", filepath.Join(f.opts.Dir, "dangling.yaml")))
	f.want("all", map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"})
	testutil.Assert(t, len(f.problems) == 0, "problems %v", f.problems)
	testutil.Must(t, os.RemoveAll(f.opts.Dir))
	f.want("without the directory", map[string]string{})
}

// TestFileKeepsWhatWas breaks a manifest in several ways. Its earlier pods stay.
func TestFileKeepsWhatWas(t *testing.T) {
	f := newFiles(t)
	f.write("m.yaml", podText("a", "1")+"---\n"+podText("b", "1"))
	f.want("good", map[string]string{"a": "1", "b": "1"})
	f.write("m.yaml", "")
	f.want("emptied", map[string]string{"a": "1", "b": "1"})
	testutil.Assert(t, f.problems["m.yaml"] != nil, "not reported")
	f.write("m.yaml", podText("a", "2")+"---\nkind: [")
	f.want("half", map[string]string{"a": "2", "b": "1"})
	f.write("m.yaml", podText("a", "2")+"---\n"+strings.Replace(podText("b", "2"), "image", "imagge", 1))
	f.want("a field wrong", map[string]string{"a": "2", "b": "1"})
	f.write("m.yaml", podText("a", "2")+"---\n"+podText("b", "2"))
	f.want("right again", map[string]string{"a": "2", "b": "2"})
	err, ok := f.problems["m.yaml"]
	testutil.Assert(t, ok && err == nil, "problem %v", err)
	f.write("m.yaml", podText("b", "2"))
	f.want("one taken out", map[string]string{"b": "2"})
	manifest := filepath.Join(f.opts.Dir, "m.yaml")
	testutil.Must(t, os.Remove(manifest))
	testutil.Must(t, os.Symlink("m.yaml", manifest))
	f.want("a link to itself, whose kind cannot be read", map[string]string{"b": "2"})
	testutil.Assert(t, f.problems["m.yaml"] != nil, "the link is not reported")
}

// TestFileWithAProblemIsRemoved: the removal of a file ends its problem.
func TestFileWithAProblemIsRemoved(t *testing.T) {
	f := newFiles(t)
	f.write("m.yaml", "broken: [")
	f.want("broken", map[string]string{})
	testutil.Assert(t, f.problems["m.yaml"] != nil, "not reported")
	testutil.Must(t, os.Remove(filepath.Join(f.opts.Dir, "m.yaml")))
	f.want("removed", map[string]string{})
	testutil.Check(t, f.problems["m.yaml"], "the problem has not ended")
}

func TestFileRestored(t *testing.T) {
	f := newFiles(t, pod("1", "a-n", "m.yaml"), pod("2", "b-n", "gone.yaml"))
	f.write("m.yaml", "broken: [")
	f.want("broken at the start", map[string]string{"a": "image"})
	f.write("m.yaml", podText("a", "2"))
	f.want("right", map[string]string{"a": "2"})
}

func TestFileObjects(t *testing.T) {
	f := newFiles(t)
	f.write("o.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n---\napiVersion: v1\nkind: "+
			"Secret\nmetadata: {name: s, namespace: other}\nstringData: {a: b}\ndata: {c: ZA==}\n")
	f.images()
	select {
	case changed := <-f.objects.Changed():
		m := volumekinds.Object{Resource: volumekinds.ConfigMaps,
			NamespacedName: types.NamespacedName{Namespace: "default", Name: "m"}}
		s := volumekinds.Object{Resource: volumekinds.Secrets,
			NamespacedName: types.NamespacedName{Namespace: "other", Name: "s"}}
		testutil.Assert(t, len(changed) == 2 && changed[m] && changed[s], "changed %v", changed)
	default:
		t.Error("no change is signalled")
	}
	m, err := f.objects.ConfigMap(podIn("default"), "m")
	testutil.Assert(t, err == nil && m.Data["a"] == "b", "%v, %v", m, err)
	s, err := f.objects.Secret(podIn("other"), "s")
	testutil.Assert(t, err == nil && string(s.Data["a"]) == "b" && string(s.Data["c"]) == "d", "%v, %v", s, err)
	_, err = f.objects.Secret(podIn("default"), "s")
	testutil.Assert(t, errdefs.IsNotFound(err), "error %v", err)
	_, err = f.objects.ConfigMap(podIn("other"), "m")
	testutil.Assert(t, errdefs.IsNotFound(err), "error %v", err)
	f.images()
	select {
	case <-f.objects.Changed():
		t.Error("a change is signalled where there is none")
	default:
	}
}

// TestFileObjectsOfOneName: if two files have the same object, the one in the later file counts.
func TestFileObjectsOfOneName(t *testing.T) {
	f := newFiles(t)
	for _, file := range []string{"b", "a"} {
		f.write(file+".yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {of: "+file+"}\n")
	}
	f.images()
	m, err := f.objects.ConfigMap(podIn("default"), "m")
	testutil.Assert(t, err == nil && m.Data["of"] == "b", "%v, %v", m, err)
}

// TestFileObjectsOfFaultyEdits: with each faulty edit, a readable object replaces its earlier version.
func TestFileObjectsOfFaultyEdits(t *testing.T) {
	f := newFiles(t)
	named := func(name string, value int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: %q}\n---\n", name,
			fmt.Sprint(value))
	}
	f.write("o.yaml", named("m", 0)+named("other", 0))
	f.images()
	for edit := range 3 {
		f.write("o.yaml", named("m", edit+1)+"kind: [")
		f.images()
	}
	for name, want := range map[string]string{"m": "3", "other": "0"} {
		m, err := f.objects.ConfigMap(podIn("default"), name)
		testutil.Assert(t, err == nil && m.Data["a"] == want, "%s: %v, %v", name, m, err)
	}
	kept := f.files[filepath.Join(f.opts.Dir, "o.yaml")].objects.ConfigMaps
	testutil.Equal(t, len(kept), 2, "kept config maps")
}

func TestFileClaims(t *testing.T) {
	f := newFiles(t)
	_, err := f.objects.Claim("default", "none")
	testutil.Assert(t, errdefs.IsUnavailable(err), "before the manifests were read: %v", err)
	f.write("o.yaml", `
apiVersion: v1
kind: PersistentVolume
metadata: {name: first}
spec: {local: {path: /first}, claimRef: {name: by-volume}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: second}
spec: {local: {path: /second}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: by-claim, namespace: other}
spec: {volumeName: second}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: lost}
spec: {volumeName: third}
`)
	f.images()
	for claim, want := range map[string]string{
		"default/by-volume": "first", "other/by-claim": "second", "default/by-claim": "", "default/none": "",
	} {
		namespace, name, _ := strings.Cut(claim, "/")
		volume, err := f.objects.Claim(namespace, name)
		testutil.Must(t, err)
		testutil.Assert(t, volume == nil && want == "" || volume != nil && volume.Name == want, "%s has %v, want %s",
			claim, volume, want)
	}
	_, err = f.objects.Claim("default", "lost")
	testutil.Assert(t, errdefs.IsNotFound(err), "a claim of a missing volume: %v", err)
}

// runFile runs a source until the test ends, and waits for its first scan.
func runFile(t *testing.T, f *FileSource) {
	t.Helper()
	testutil.Background(t, func(ctx context.Context) error {
		err := f.Run(ctx)
		testutil.Assert(t, errors.Is(err, context.Canceled), "%v", err)
		return nil
	})
	for !f.config.SeenAllSources() {
		time.Sleep(time.Millisecond)
	}
}

// nextOp waits for the next update.
func nextOp(t *testing.T, config *PodConfig) PodOperation {
	t.Helper()
	return testutil.Receive(t, config.Updates(), "nothing is received").Op
}

// TestFileWatches: the source notices new and removed files without waiting for the slow scan.
func TestFileWatches(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	testutil.Must(t, os.Mkdir(dir, 0o755))
	config := New(Options{Sources: []string{model.SourceFile}})
	runFile(t,
		NewFileSource(FileOptions{Dir: dir, Rescan: time.Hour, settle: 10 * time.Millisecond}, config, NewObjects(),
			nil))
	path := filepath.Join(dir, "a.yaml")
	testutil.Must(t, os.WriteFile(path, []byte(podText("a", "1")), 0o644))
	ops := []PodOperation{nextOp(t, config)}
	testutil.Must(t, os.Remove(path))
	ops = append(ops, nextOp(t, config))
	testutil.Assert(t, slices.Equal(ops, []PodOperation{Add, Remove}), "received %v", ops)
}

// TestFileIsReadWithoutNotices: the slow scan finds a directory that was created later, and the content of a directory
// that replaced it.
func TestFileIsReadWithoutNotices(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "manifests")
	config := New(Options{Sources: []string{model.SourceFile}})
	runFile(t,
		NewFileSource(FileOptions{Dir: dir, Rescan: 20 * time.Millisecond, settle: time.Millisecond}, config,
			NewObjects(), nil))
	for _, step := range []struct {
		name string
		want []PodOperation
	}{{"a", []PodOperation{Add}}, {"b", []PodOperation{Add, Remove}}} {
		next := filepath.Join(parent, step.name)
		testutil.Must(t, os.Mkdir(next, 0o755))
		testutil.Must(t, os.WriteFile(filepath.Join(next, step.name+".yaml"), []byte(podText(step.name, "1")), 0o644))
		if err := os.Rename(dir, filepath.Join(parent, "before-"+step.name)); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		testutil.Must(t, os.Rename(next, dir))
		received := []PodOperation{}
		for range step.want {
			received = append(received, nextOp(t, config))
		}
		slices.Sort(received) // a scan may come between removal and creation
		testutil.Assert(t, slices.Equal(received, step.want),
			"directory %s: received %v, want %v", step.name, received, step.want)
	}
}

// TestFileWithoutInotify: the slow scan finds manifests if no inotify instance is left.
func TestFileWithoutInotify(t *testing.T) {
	if testutil.InUserNamespace(t) {
		return
	}
	testutil.LimitInotify(t, "instances", 0)
	dir := t.TempDir()
	config := New(Options{Sources: []string{model.SourceFile}})
	runFile(t,
		NewFileSource(FileOptions{Dir: dir, Rescan: 20 * time.Millisecond, settle: time.Millisecond}, config,
			NewObjects(), nil))
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(podText("a", "1")), 0o644))
	testutil.Equal(t, nextOp(t, config), Add, "received")
}
