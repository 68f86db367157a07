package logs

import (
	"os"
	"sync"
	"testing"
	"time"
)

func TestBatchesAreObserved(t *testing.T) {
	var mu sync.Mutex
	var bytes int
	var lags []time.Duration
	s, err := New(Options{ObserveBatch: func(n int, lag time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		bytes += n
		lags = append(lags, lag)
	}})
	if err != nil {
		t.Fatal(err)
	}
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
