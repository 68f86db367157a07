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
	"github.com/criadapter/criadapter/internal/testutil"
)

// The power fails after a container has written. Saved positions are on the disk. The CRI log has its content up to its
// last sync and any part of the rest. The engine's file is never synced, so any prefix of it may be left. With each of
// the saved positions, the next follower completes the CRI log. The log then has each line that is left in the engine's
// file, once and in order.
func TestPowerCutBetweenLogAndPosition(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, position := range []string{"the beginning", "the first", "the last"} {
		for _, log := range []float64{0, 0.3, 0.6, 0.9, 1} {
			for _, engine := range []float64{0.2, 0.5, 0.8, 1} {
				// in the middle of lines, too
				jitter := func(part float64) float64 { return min(1, part+random.Float64()*0.05) }
				name := fmt.Sprintf("position %s, %.0f%% of the log, %.0f%% of the engine's", position, 100*log,
					100*engine)
				t.Run(name, func(t *testing.T) { cutPower(t, position, jitter(log), jitter(engine)) })
			}
		}
	}
}

const linesBeforeTheCut = 60

func cutPower(t *testing.T, position string, logPart, enginePart float64) {
	o := newTestLog(t, 3, 1<<20)
	enginePath, logPath := o.source.Path, o.source.LogPath
	var synced atomic.Int64
	forgetful := Options{batchPause: time.Millisecond, sync: func(file *os.File) error {
		info, err := file.Stat()
		if err == nil {
			synced.Store(info.Size())
		}
		return err
	}}
	o.s = New(forgetful)
	o.start()
	o.engine.lines(1, linesBeforeTheCut/3)
	o.wait(linesBeforeTheCut / 3)
	o.s.Close() // saves
	first, syncedFirst := o.saved.get(), synced.Load()
	o.s = New(forgetful)
	o.source.Resume, o.source.Started = &first, true
	o.start()
	o.engine.lines(linesBeforeTheCut/3+1, linesBeforeTheCut)
	o.wait(linesBeforeTheCut)
	o.s.Close()
	last := o.saved.get()

	durable := map[string]int64{"the beginning": 0, "the first": syncedFirst, "the last": synced.Load()}[position]
	left := map[string]*checkpoint.LogPosition{"the beginning": {}, "the first": &first, "the last": &last}[position]
	cut(t, logPath, logPart, durable)
	cut(t, enginePath, enginePart, 0)
	text, err := os.ReadFile(enginePath)
	testutil.Must(t, err)
	whole := len(regexp.MustCompile(`line \d+`).FindAll(text, -1))
	if len(text) > 0 && enginePart < 1 {
		whole-- // the last one may be torn
	}
	o.source.Resume, o.source.Ended = left, true
	o.source.Save = func(context.Context, checkpoint.LogPosition) error { return nil }
	o.s = newService(t)
	o.start()
	o.drain()
	seen := map[int]int{}
	previous := 0
	for _, line := range wholeLines(t, logPath) {
		var number int
		_, content, _ := strings.Cut(line, " F ")
		if _, err := fmt.Sscanf(content, "line %d", &number); err != nil {
			continue // the marker of a gap
		}
		if seen[number]++; seen[number] > 1 || number < previous {
			t.Errorf("line %d is there %d times, after line %d", number, seen[number], previous)
		}
		previous = number
	}
	for number := 1; number <= whole; number++ {
		testutil.Assert(t, seen[number] != 0, "line %d of the %d that the engine has is not in the log", number, whole)
	}
}

// cut truncates a file to a part, but not below its durable size.
func cut(t *testing.T, path string, part float64, durable int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, max(durable, int64(part*float64(info.Size()))))
	}
	testutil.Must(t, err)
}
