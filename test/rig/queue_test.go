package main

import (
	"slices"
	"sync"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// If several rigs read from one queue, each number goes to exactly one rig.
func TestQueueIsShared(t *testing.T) {
	queue, err := newQueue(500)
	testutil.Must(t, err)
	defer queue.Close()
	var (
		mu      sync.Mutex
		taken   []int
		readers sync.WaitGroup
	)
	for range 4 {
		readers.Go(func() {
			next := nextOf(queue)
			for i, more := next(); more; i, more = next() {
				mu.Lock()
				taken = append(taken, i)
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	slices.Sort(taken)
	want := make([]int, 500)
	for i := range want {
		want[i] = i
	}
	testutil.Assert(t, slices.Equal(taken, want), "taken: %v", taken)
}

func TestQueueThatNoPipeHolds(t *testing.T) {
	_, err := newQueue(pipeSize)
	testutil.Assert(t, err != nil, "no error")
}
