package logs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
)

// TestPowerCutBetweenLogAndPosition cuts the power after a container has written. A position is on the disk as soon as it
// is saved; the CRI log is up to its last sync and any part of the rest, and of the engine's file, which nobody syncs, any
// beginning. What is left of that is in the CRI log at the end, each line once and in order, whichever position was the
// last.
func TestPowerCutBetweenLogAndPosition(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, position := range []string{"the beginning", "the first", "the last"} {
		for _, log := range []float64{0, 0.3, 0.6, 0.9, 1} {
			for _, engine := range []float64{0.2, 0.5, 0.8, 1} {
				jitter := func(part float64) float64 { return min(1, part+random.Float64()*0.05) } // in the middle of lines, too
				name := fmt.Sprintf("position %s, %.0f%% of the log, %.0f%% of the engine's", position, 100*log, 100*engine)
				t.Run(name, func(t *testing.T) { cutPower(t, position, jitter(log), jitter(engine)) })
			}
		}
	}
}

const linesBeforeTheCut = 60

func cutPower(t *testing.T, position string, logPart, enginePart float64) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 3, 1<<20)
	saved := &positions{}
	source := savedLog(enginePath, logPath, saved)
	var synced atomic.Int64
	forgetful := Options{batchPause: time.Millisecond, sync: func(file *os.File) error {
		info, err := file.Stat()
		if err == nil {
			synced.Store(info.Size())
		}
		return err
	}}
	s := New(forgetful)
	start(t, s, source)
	engine.lines(1, linesBeforeTheCut/3)
	waitLines(t, logPath, linesBeforeTheCut/3)
	s.Close() // saves
	first, syncedFirst := saved.get(), synced.Load()
	s = New(forgetful)
	source.Resume, source.Started = &first, true
	start(t, s, source)
	engine.lines(linesBeforeTheCut/3+1, linesBeforeTheCut)
	waitLines(t, logPath, linesBeforeTheCut)
	s.Close()
	last := saved.get()

	durable := map[string]int64{"the beginning": 0, "the first": syncedFirst, "the last": synced.Load()}[position]
	left := map[string]*checkpoint.LogPosition{"the beginning": {}, "the first": &first, "the last": &last}[position]
	cut(t, logPath, logPart, durable)
	cut(t, enginePath, enginePart, 0)
	text, err := os.ReadFile(enginePath)
	if err != nil {
		t.Fatal(err)
	}
	whole := len(regexp.MustCompile(`line \d+`).FindAll(text, -1))
	if len(text) > 0 && enginePart < 1 {
		whole-- // the last one may be torn
	}
	source.Resume, source.Ended, source.Save = left, true, func(context.Context, checkpoint.LogPosition) error { return nil }
	s = newService(t)
	start(t, s, source)
	drain(t, s, "c")
	seen := map[int]int{}
	previous := 0
	for _, line := range wholeLines(t, logPath) {
		var number int
		_, content, _ := strings.Cut(line, " F ")
		if _, err := fmt.Sscanf(content, "line %d", &number); err != nil {
			continue // the marker of a gap
		}
		if seen[number]++; seen[number] > 1 || number < previous {
			t.Errorf("line %d is there %d times, behind line %d", number, seen[number], previous)
		}
		previous = number
	}
	for number := 1; number <= whole; number++ {
		if seen[number] == 0 {
			t.Errorf("line %d of the %d that the engine has is not in the log", number, whole)
		}
	}
}

// cut leaves a part of a file, and what is durable of it.
func cut(t *testing.T, path string, part float64, durable int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, max(durable, int64(part*float64(info.Size()))))
	}
	if err != nil {
		t.Fatal(err)
	}
}
