package podconfig

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// apiPod is a pod of the API server.
func apiPod(uid, name string) *v1.Pod {
	pod := pod(uid, name, "")
	pod.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceAPI}
	return pod
}

var everySource = []string{model.SourceFile, model.SourceHTTP, model.SourceAPI}

func TestCheckpoint(t *testing.T) {
	checkpoint := &Checkpoint{Path: filepath.Join(t.TempDir(), "deep", "pods.json")}
	m := New(Options{Checkpoint: checkpoint, Sources: everySource})
	pods, err := m.Restore(t.Context())
	testutil.Assert(t, err == nil && len(pods) == 0, "without a file: %v, %v", pods, err)
	ended := apiPod("8", "ended")
	ended.Status.Phase = v1.PodSucceeded
	deleted := apiPod("9", "deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Truncate(0)}
	set(t, m, model.SourceFile, pod("1", "one", "x"), pod("2", "two", "x"))
	set(t, m, model.SourceAPI, ended, deleted, mirror("7", "one"))
	m.Wait()
	info, err := os.Stat(checkpoint.Path)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o600, "checkpoint %v, %v", info, err)

	again := New(Options{Checkpoint: checkpoint, Sources: everySource})
	restored, err := again.Restore(t.Context())
	testutil.Require(t, err == nil && len(restored) == 4, "restored %v, %v", restored, err)
	i := slices.IndexFunc(restored, func(p *v1.Pod) bool { return p.UID == "8" })
	testutil.Assert(t, i >= 0 && restored[i].Status.Phase == v1.PodSucceeded, "a pod that ended would start again")
	if got := drain(again); got != "api:DELETE:9 api:ADD:8 file:ADD:1 file:ADD:2" &&
		got != "file:ADD:1 file:ADD:2 api:DELETE:9 api:ADD:8" {
		t.Errorf("restored: %q", got)
	}
	testutil.Assert(t, !again.SeenAllSources(), "ready, though no source has been seen")
	got := set(t, again, model.SourceFile, pod("2", "two", "x"))
	testutil.Assert(t, got == "file:REMOVE:1", "after the directory's first list: %q", got)
	got = set(t, again, model.SourceAPI, apiPod("10", "ended"))
	testutil.Assert(t, got == "api:REMOVE:9 api:REMOVE:8 api:ADD:10 api:RECONCILE:2",
		"after the server's first list: %q", got)
	set(t, again, model.SourceHTTP)
	testutil.Assert(t, again.SeenAllSources(), "not ready, though every source has been seen")
	again.Wait()
}

// TestRestoredPodsAreConfirmed: the server's first list confirms restored pods, even without a change.
func TestRestoredPodsAreConfirmed(t *testing.T) {
	checkpoint := &Checkpoint{Path: filepath.Join(t.TempDir(), "pods.json")}
	m := New(Options{Checkpoint: checkpoint, Sources: everySource})
	server := apiPod("1", "one")
	server.ResourceVersion = "7"
	set(t, m, model.SourceAPI, server)
	m.Wait()
	again := New(Options{Checkpoint: checkpoint, Sources: everySource})
	restored, err := again.Restore(t.Context())
	testutil.Require(t, err == nil && len(restored) == 1 && model.Restored(restored[0]) && !model.Restored(server),
		"%v, %v", restored, err)
	drain(again)
	testutil.Equal(t, set(t, again, model.SourceAPI, server), "api:RECONCILE:1", "the server lists it")
	testutil.Equal(t, set(t, again, model.SourceAPI, server), "", "and lists it again")
	again.Wait()
}

// TestCheckpointOfAForgottenSource: Restore drops the pods of a source that is no longer configured, because nothing
// would ever end them.
func TestCheckpointOfAForgottenSource(t *testing.T) {
	checkpoint := &Checkpoint{Path: filepath.Join(t.TempDir(), "pods.json")}
	testutil.Must(t, checkpoint.Save([]*v1.Pod{pod("1", "one", "x"), apiPod("2", "two")}))
	m := New(Options{Checkpoint: checkpoint, Sources: []string{model.SourceFile}})
	pods, err := m.Restore(t.Context())
	testutil.Assert(t, err == nil && len(pods) == 1 && drain(m) == "file:ADD:1", "restored %v, %v", pods, err)
}

func TestCheckpointCorrupt(t *testing.T) {
	checkpoint := &Checkpoint{Path: filepath.Join(t.TempDir(), "pods.json")}
	testutil.Must(t, os.WriteFile(checkpoint.Path, []byte("garbage"), 0o644))
	_, err := New(Options{Checkpoint: checkpoint}).Restore(t.Context())
	testutil.Assert(t, err != nil, "garbage is restored")
	testutil.Exists(t, checkpoint.Path+".corrupt")
}

// TestCheckpointProblem: a failing write is reported once and retried. The first success is reported, too.
func TestCheckpointProblem(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "blocked")
	testutil.Must(t, os.WriteFile(blocked, nil, 0o600))
	var problems []error
	m := New(Options{
		Checkpoint: &Checkpoint{Path: filepath.Join(blocked, "pods.json")}, Problem: func(_ string, err error) {
			problems = append(problems, err)
		},
	})
	write := func(pods ...*v1.Pod) {
		set(t, m, "a", pods...)
		m.Wait()
	}
	write(pod("1", "one", "x"))
	write(pod("1", "one", "x"), pod("2", "two", "x"))
	testutil.Assert(t, len(problems) == 1 && problems[0] != nil, "problems %v, want one", problems)
	testutil.Must(t, os.Remove(blocked))
	write(pod("1", "one", "x"), pod("2", "two", "x")) // unchanged, but not written yet
	testutil.Assert(t, len(problems) == 2 && problems[1] == nil, "problems %v, want one and its end", problems)
	raw, err := os.ReadFile(filepath.Join(blocked, "pods.json"))
	testutil.Assert(t, err == nil && bytes.Contains(raw, []byte("two")), "checkpoint %s, %v", raw, err)
}

// TestCheckpointBursts: a burst of changes causes one write. When the sources end, the write comes at once.
func TestCheckpointBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saves := 0
		s := &checkpointWriter{save: func() error { saves++; return nil }, report: func(context.Context, error) {}}
		ctx, cancel := context.WithCancel(t.Context())
		for range 50 {
			s.schedule(ctx)
		}
		s.running.Wait()
		testutil.Assert(t, saves == 1, "%d saves for one burst", saves)
		s.schedule(ctx)
		cancel()
		synctest.Wait() // without time passing
		testutil.Assert(t, saves == 2, "%d saves at the end, want 2", saves)
	})
}
