package grants

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestGrantsOutliveAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grants")
	g, err := Open[string](path)
	testutil.Must(t, err)
	testutil.Must(t, g.Set("first", "a", "x"))
	testutil.Must(t, g.Set("first", "b", "y"))
	testutil.Must(t, g.Set("second", "a", "z"))
	dropped, err := g.Keep(func(uid types.UID) bool { return uid != "second" })
	testutil.Assert(t, dropped && err == nil, "dropped %t, %v", dropped, err)
	dropped, err = g.Keep(func(types.UID) bool { return true })
	testutil.Assert(t, !dropped && err == nil, "dropped %t, %v", dropped, err)
	again, err := Open[string](path)
	testutil.Must(t, err)
	value, ok := again.Get("first", "b")
	testutil.Assert(t, ok && value == "y", "the grant is %q, %t", value, ok)
	_, ok = again.Get("second", "a")
	testutil.Assert(t, !ok, "a pod that is gone has a grant")
}

func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	g, err := Open[string](filepath.Join(dir, "grants"))
	testutil.Must(t, err)
	testutil.Must(t, g.Set("first", "a", "x"))
	testutil.Must(t, os.RemoveAll(dir))
	dropped, err := g.Keep(func(types.UID) bool { return false })
	testutil.Assert(t, !dropped, "a grant was dropped although the write failed")
	testutil.Assert(t, g.Set("first", "a", "y") != nil && g.Set("first", "b", "y") != nil && err != nil,
		"no error without the directory")
	value, _ := g.Get("first", "a")
	_, other := g.Get("first", "b")
	testutil.Assert(t, value == "x" && !other, "the grants are %q and %t", value, other)
}

func TestUnreadableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grants")
	testutil.Must(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err := Open[string](path)
	testutil.Assert(t, err != nil, "no error")
}

// TestNullFile: an edited file that is null has no grants.
func TestNullFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grants")
	testutil.WriteFile(t, path, "null\n")
	g, err := Open[string](path)
	testutil.Must(t, err)
	testutil.Must(t, g.Set("pod", "a", "x"))
}

func TestOthers(t *testing.T) {
	g, err := Open[string](filepath.Join(t.TempDir(), "grants"))
	testutil.Must(t, err)
	for _, grant := range [][3]string{{"pod", "init", "i"}, {"pod", "side", "s"}, {"pod", "main", "m"},
		{"other", "c", "o"}, {"ended", "c", "e"}} {
		testutil.Must(t, g.Set(types.UID(grant[0]), grant[1], grant[2]))
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}, Spec: v1.PodSpec{InitContainers: []v1.Container{
		{Name: "init"}, {Name: "side", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}}}
	taken, reusable := g.Others(pod, "main", func(uid types.UID) bool { return uid == "ended" })
	slices.Sort(taken)
	slices.Sort(reusable)
	testutil.Assert(t, slices.Equal(taken, []string{"o", "s"}) && slices.Equal(reusable, []string{"i", "m"}),
		"taken %q, reusable %q", taken, reusable)
}
