package podconfig

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// mirror returns the API server's mirror pod of a static pod.
func mirror(uid, name string) *v1.Pod {
	made := apiPod(uid, name)
	made.Annotations[model.AnnotationConfigMirror] = "hash"
	made.ResourceVersion = "1"
	return made
}

// TestMirrors: mirror pods are never in the stream.
func TestMirrors(t *testing.T) {
	m := New(Options{Refused: func(r Refusal) { t.Errorf("refused %s: %v", r.Pod.UID, r.Err) }})
	static, other, plain := pod("1", "one", "x"), pod("2", "two", "x"), apiPod("5", "plain")
	written := edited(mirror("7", "one"), func(p *v1.Pod) { p.ResourceVersion = "2" })
	deleted := edited(written, func(p *v1.Pod) { p.ResourceVersion, p.DeletionTimestamp = "3", &metav1.Time{} })
	for _, step := range []struct {
		name, source string
		pods         []*v1.Pod
		want         string
		mirror       string // UID of the mirror pod, empty for none
	}{
		{"another static pod", model.SourceFile, []*v1.Pod{other}, "file:ADD:2", "unknown"},
		{"before its static pod", model.SourceAPI, []*v1.Pod{mirror("6", "one")}, "api:RECONCILE:2", "6"},
		{"the static pod", model.SourceFile, []*v1.Pod{other, static}, "file:ADD:1", "6"},
		{"replaced", model.SourceAPI, []*v1.Pod{mirror("7", "one"), plain}, "api:ADD:5 api:RECONCILE:1", "7"},
		{"the same", model.SourceAPI, []*v1.Pod{mirror("7", "one"), plain}, "", "7"},
		{"written", model.SourceAPI, []*v1.Pod{written, plain}, "api:RECONCILE:1", "7"},
		{"another without a static pod", model.SourceAPI, []*v1.Pod{written, plain, mirror("8", "stray")}, "", "7"},
		{"being deleted", model.SourceAPI, []*v1.Pod{deleted, plain}, "api:RECONCILE:1", "7"},
		{"gone", model.SourceAPI, []*v1.Pod{plain}, "api:RECONCILE:1", ""},
	} {
		got := set(t, m, step.source, step.pods...)
		uid := ""
		if !m.SeenSource(model.SourceAPI) {
			uid = "unknown"
		}
		for _, seen := range m.MirrorPods() {
			if model.FullName(seen) == model.FullName(static) {
				uid = string(seen.UID)
			}
		}
		testutil.Assert(t, got == step.want && uid == step.mirror,
			"%s: %q and mirror %q, want %q and %q", step.name, got, uid, step.want, step.mirror)
		testutil.Assert(t, step.name != "another without a static pod" || len(m.MirrorPods()) == 2,
			"mirrors %v, want both", m.MirrorPods())
	}
}
