package logs

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
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
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	const age = time.Hour
	engine.raw(localRecord(entry{unixNano: time.Now().Add(-age).UnixNano(), stream: stdout, line: []byte("written long ago")}, false))
	start(t, s, localLog(enginePath, logPath))
	waitLines(t, logPath, 1)
	engine.lines(1, 1000)
	drain(t, s, "c")
	info, err := os.Stat(logPath)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if int64(bytes) != info.Size() {
		t.Errorf("%d bytes were observed, the log has %d", bytes, info.Size())
	}
	if len(lags) < 2 || lags[0] < age || lags[0] > age+time.Minute {
		t.Fatalf("lags %v, want the first to be an hour", lags)
	}
	for _, lag := range lags[1:] {
		if lag < 0 || lag > time.Minute {
			t.Errorf("a batch was %s late", lag)
		}
	}
}

// What a killed follower has written is not observed a second time.
func TestComparedBytesAreNotObserved(t *testing.T) {
	var observed atomic.Int64
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	source := localLog(enginePath, logPath)
	s := newService(t)
	start(t, s, source)
	engine.lines(1, 100)
	waitLines(t, logPath, 100)
	s.Close()
	before, err := os.Stat(logPath)
	if err != nil {
		t.Fatal(err)
	}
	s = New(Options{ObserveBatch: func(n int, _ time.Duration) { observed.Add(int64(n)) }})
	defer s.Close()
	source.Resume = &checkpoint.LogPosition{}
	engine.lines(101, 110)
	start(t, s, source)
	drain(t, s, "c")
	after, err := os.Stat(logPath)
	if err != nil {
		t.Fatal(err)
	}
	if want := after.Size() - before.Size(); observed.Load() != want || want == 0 {
		t.Errorf("%d bytes were observed, %d were written", observed.Load(), want)
	}
}
