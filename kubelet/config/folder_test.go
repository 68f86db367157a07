package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

func podText(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image)
}

// in is a pod of a namespace, to ask for its objects.
func in(namespace string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
}

// folder is a Folder in a temporary one, scanned by hand.
type folder struct {
	*Folder
	t        *testing.T
	mux      *Mux
	objects  *Objects
	problems map[string]error
}

func newFolder(t *testing.T, restored ...*v1.Pod) *folder {
	f := &folder{t: t, mux: NewMux(Options{}), objects: NewObjects(), problems: map[string]error{}}
	dir := t.TempDir()
	for _, pod := range restored {
		pod.Annotations[model.AnnotationManifest] = filepath.Join(dir, pod.Annotations[model.AnnotationManifest])
	}
	f.Folder = NewFolder(FolderOptions{Dir: dir, NodeName: "n", Problem: func(path string, err error) {
		f.problems[filepath.Base(path)] = err
	}}, f.mux, f.objects, restored)
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.opts.Dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// images scans and returns the images of all pods by name.
func (f *folder) images() map[string]string {
	f.t.Helper()
	if err := f.scan(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	drain(f.mux)
	images := map[string]string{}
	for _, pod := range f.mux.pods[model.SourceFile] {
		images[strings.TrimSuffix(pod.Name, "-n")] = pod.Spec.Containers[0].Image
	}
	return images
}

func (f *folder) want(what string, images map[string]string) {
	f.t.Helper()
	if got := f.images(); !maps.Equal(got, images) {
		f.t.Errorf("%s: %v, want %v", what, got, images)
	}
}

func TestFolderFiles(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", podText("a", "1")+"---\n"+podText("b", "1"))
	f.write("c.yml", podText("c", "1"))
	f.write("d.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"d"},"spec":{"containers":[{"name":"c","image":"1"}]}}`)
	f.write(".hidden.yaml", podText("hidden", "1"))
	f.write("backup.yaml~", podText("backup", "1"))
	if err := os.Mkdir(filepath.Join(f.opts.Dir, "dir.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(f.opts.Dir, "dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	f.want("all", map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"})
	if len(f.problems) != 0 {
		t.Errorf("problems %v", f.problems)
	}
	if err := os.RemoveAll(f.opts.Dir); err != nil {
		t.Fatal(err)
	}
	f.want("without the folder", map[string]string{})
}

// TestFolderKeepsWhatWas breaks a manifest in several ways: what it named before stays.
func TestFolderKeepsWhatWas(t *testing.T) {
	f := newFolder(t)
	f.write("m.yaml", podText("a", "1")+"---\n"+podText("b", "1"))
	f.want("good", map[string]string{"a": "1", "b": "1"})
	f.write("m.yaml", "")
	f.want("emptied", map[string]string{"a": "1", "b": "1"})
	if f.problems["m.yaml"] == nil {
		t.Error("not reported")
	}
	f.write("m.yaml", podText("a", "2")+"---\nkind: [")
	f.want("half", map[string]string{"a": "2", "b": "1"})
	f.write("m.yaml", podText("a", "2")+"---\n"+strings.Replace(podText("b", "2"), "image", "imagge", 1))
	f.want("a field wrong", map[string]string{"a": "2", "b": "1"})
	f.write("m.yaml", podText("a", "2")+"---\n"+podText("b", "2"))
	f.want("right again", map[string]string{"a": "2", "b": "2"})
	if err, ok := f.problems["m.yaml"]; !ok || err != nil {
		t.Errorf("problem %v", err)
	}
	f.write("m.yaml", podText("b", "2"))
	f.want("one taken out", map[string]string{"b": "2"})
}

func TestFolderRestored(t *testing.T) {
	f := newFolder(t, pod("1", "a-n", "m.yaml"), pod("2", "b-n", "gone.yaml"))
	f.write("m.yaml", "broken: [")
	f.want("broken at the start", map[string]string{"a": "image"})
	f.write("m.yaml", podText("a", "2"))
	f.want("right", map[string]string{"a": "2"})
}

func TestFolderObjects(t *testing.T) {
	f := newFolder(t)
	f.write("o.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: other}\nstringData: {a: b}\ndata: {c: ZA==}\n")
	f.images()
	select {
	case <-f.objects.Changed():
	default:
		t.Error("no change is told")
	}
	if m, err := f.objects.ConfigMap(in("default"), "m"); err != nil || m.Data["a"] != "b" {
		t.Errorf("%v, %v", m, err)
	}
	if s, err := f.objects.Secret(in("other"), "s"); err != nil || string(s.Data["a"]) != "b" || string(s.Data["c"]) != "d" {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := f.objects.Secret(in("default"), "s"); !errdefs.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	if _, err := f.objects.ConfigMap(in("other"), "m"); !errdefs.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	f.images()
	select {
	case <-f.objects.Changed():
		t.Error("a change is told where there is none")
	default:
	}
}

// runFolder runs a folder until the test ends, and waits until it was read once.
func runFolder(t *testing.T, f *Folder) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for !f.mux.Ready() {
		time.Sleep(time.Millisecond)
	}
}

// nextOp waits for what a source says next.
func nextOp(t *testing.T, mux *Mux) Op {
	t.Helper()
	select {
	case u := <-mux.Updates():
		return u.Op
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is told")
		return ""
	}
}

// TestFolderWatches sees files come and go without waiting for the slow scan.
func TestFolderWatches(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mux := NewMux(Options{Sources: []string{model.SourceFile}})
	runFolder(t, NewFolder(FolderOptions{Dir: dir, Rescan: time.Hour, Settle: 10 * time.Millisecond}, mux, NewObjects(), nil))
	path := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(path, []byte(podText("a", "1")), 0o644); err != nil {
		t.Fatal(err)
	}
	ops := []Op{nextOp(t, mux)}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if ops = append(ops, nextOp(t, mux)); !slices.Equal(ops, []Op{Add, Remove}) {
		t.Errorf("told %v", ops)
	}
}

// TestFolderIsReadWithoutNotices finds with the slow scan what no notification tells of: a folder that was not there at the
// start, and what another one in its place holds.
func TestFolderIsReadWithoutNotices(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "manifests")
	mux := NewMux(Options{Sources: []string{model.SourceFile}})
	runFolder(t, NewFolder(FolderOptions{Dir: dir, Rescan: 20 * time.Millisecond, Settle: time.Millisecond}, mux, NewObjects(), nil))
	for _, step := range []struct {
		name string
		want []Op
	}{{"a", []Op{Add}}, {"b", []Op{Add, Remove}}} {
		next := filepath.Join(parent, step.name)
		if err := os.Mkdir(next, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(next, step.name+".yaml"), []byte(podText(step.name, "1")), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir, filepath.Join(parent, "before-"+step.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Rename(next, dir); err != nil {
			t.Fatal(err)
		}
		told := []Op{}
		for range step.want {
			told = append(told, nextOp(t, mux))
		}
		slices.Sort(told) // the scan may see the moment without a folder
		if !slices.Equal(told, step.want) {
			t.Errorf("folder %s: told %v, want %v", step.name, told, step.want)
		}
	}
}
