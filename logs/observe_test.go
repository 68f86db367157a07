package logs

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestBatchesAreObserved(t *testing.T) {
	var mu sync.Mutex
	var bytes int
	var lags []time.Duration
	s := New(Options{ObserveBatch: func(n int, lag time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		bytes += n
		lags = append(lags, lag)
	}})
	defer s.Close()
	o := newTestLog(t, 2, 1<<20)
	o.s = s
	const age = time.Hour
	o.engine.raw(localRecord(entry{unixNano: time.Now().Add(-age).UnixNano(), stream: stdout, line: []byte("written " +
		"long ago")}, false))
	o.start()
	o.wait(1)
	o.engine.lines(1, 1000)
	o.drain()
	info, err := os.Stat(o.source.LogPath)
	testutil.Must(t, err)
	mu.Lock()
	defer mu.Unlock()
	testutil.Assert(t, int64(bytes) == info.Size(), "%d bytes were observed, the log has %d", bytes, info.Size())
	testutil.Require(t, len(lags) >= 2 && lags[0] >= age && lags[0] <= age+time.Minute,
		"lags %v, want the first to be an hour", lags)
	for _, lag := range lags[1:] {
		testutil.Assert(t, lag >= 0 && lag <= time.Minute, "a batch was %s late", lag)
	}
}

// Bytes that a killed follower has written are not observed again.
func TestComparedBytesAreNotObserved(t *testing.T) {
	var observed atomic.Int64
	o := follow(t, 2, 1<<20)
	o.engine.lines(1, 100)
	o.wait(100)
	o.s.Close()
	before, err := os.Stat(o.source.LogPath)
	testutil.Must(t, err)
	o.s = New(Options{ObserveBatch: func(n int, _ time.Duration) { observed.Add(int64(n)) }})
	defer o.s.Close()
	o.source.Resume = &checkpoint.LogPosition{}
	o.engine.lines(101, 110)
	o.start()
	o.drain()
	after, err := os.Stat(o.source.LogPath)
	testutil.Must(t, err)
	if want := after.Size() - before.Size(); observed.Load() != want || want == 0 {
		t.Errorf("%d bytes were observed, %d were written", observed.Load(), want)
	}
}
