package checkpoint

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	const workers, rounds = 8, 25
	dir := t.TempDir()
	s := mustOpen(t, dir)
	ids := []string{"a", "b"}
	for _, id := range ids {
		mustSave(t, s, Record{SandboxID: id})
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range rounds {
				id := ids[i%len(ids)]
				if err := s.Update(t.Context(), id, func(r *Record) error { r.Attempt++; return nil }); err != nil {
					t.Errorf("Update: %v", err)
				}
				_, err := s.Load(t.Context(), id)
				testutil.Assert(t, err == nil, "Load: %v", err)
			}
		})
	}
	wg.Wait()
	var sum uint32
	for _, id := range ids {
		sum += mustLoad(t, mustOpen(t, dir), id).Attempt
	}
	testutil.Assert(t, sum == workers*rounds, "%d updates are on disk, want %d", sum, workers*rounds)
}

// A hanging disk write delays neither other pods nor a reader of the same pod.
func TestSavesOfDifferentPodsDoNotWait(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustSave(t, s, Record{SandboxID: "slow", Name: "old"})
	entered, leave := make(chan struct{}), make(chan struct{})
	var hung atomic.Bool
	s.disk = syncing(func(dir string) error {
		if hung.CompareAndSwap(false, true) {
			close(entered)
			<-leave
		}
		return syncDir(dir)
	})
	var slow sync.WaitGroup
	slow.Go(func() {
		testutil.Check(t, s.Save(t.Context(), Record{SandboxID: "slow", Name: "new"}), "Save")
	})
	<-entered

	done := make(chan error, 1)
	go func() { done <- otherWork(t.Context(), s) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(3 * time.Minute):
		t.Error("work waits for another pod's disk write")
	}
	close(leave)
	slow.Wait()
	requireRecord(t, mustLoad(t, s, "slow"), Record{SandboxID: "slow", Name: "new"})
}

// otherWork does the calls that must not wait while the pod "slow" is being written.
func otherWork(ctx context.Context, s *Store) error {
	if err := s.Save(ctx, Record{SandboxID: "quick"}); err != nil {
		return err
	}
	if err := s.Update(ctx, "quick", func(r *Record) error { r.Attempt++; return nil }); err != nil {
		return err
	}
	r, err := s.Load(ctx, "slow")
	if err != nil {
		return err
	}
	if r.Name != "old" {
		return fmt.Errorf("memory has the name %q before the disk write ended", r.Name)
	}
	listing, err := s.List(ctx)
	if err == nil && len(listing.Records) != 2 {
		err = fmt.Errorf("List returned %d records, want 2", len(listing.Records))
	}
	if err != nil {
		return err
	}
	return s.Delete(ctx, "quick")
}

func TestConcurrentSaveAndDelete(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 30 {
				testutil.Check(t, s.Save(t.Context(), Record{SandboxID: "abc", Attempt: uint32(i)}), "Save")
			}
		})
		wg.Go(func() {
			for range 30 {
				testutil.Check(t, s.Delete(t.Context(), "abc"), "Delete")
			}
		})
	}
	wg.Wait()
	// Memory and disk must agree in the end.
	fresh, freshErr := mustOpen(t, dir).Load(t.Context(), "abc")
	r, err := s.Load(t.Context(), "abc")
	if (err == nil) != (freshErr == nil) || err == nil && r.Attempt != fresh.Attempt {
		t.Errorf("memory says %+v, %v; disk says %+v, %v", r, err, fresh, freshErr)
	}
}
