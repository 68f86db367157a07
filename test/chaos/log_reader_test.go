package chaos

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// TestReaderOfAKilledLog reads a container's log as collectors do: from the beginning again after the log has shrunk.
// Although criadapter is killed meanwhile, the reader gets each line once.
func TestReaderOfAKilledLog(t *testing.T) {
	const (
		bursts, burst = 60, 500 // 50 kB each
		kills         = 6
	)
	env := ownEngine(t)
	w := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env}), inBursts(bursts, burst, "0.1"))
	reader := newCollector(t, w.logPath)
	for range kills {
		time.Sleep(500 * time.Millisecond)
		w.server.Kill()
		time.Sleep(200 * time.Millisecond)
		w.restart()
	}
	w.awaitExit()
	text := reader.end()
	got := count(t, bursts*burst, w.logPath)
	read := strings.Count(text, "\n")
	fmt.Printf(
		"logs: criadapter killed %d times under a reader: %v, the reader has %d lines, the log shrank %d times, "+
			"at most to %d bytes\n",
		kills, got, read, reader.shrunk, reader.least)
	testutil.Assert(t, reader.shrunk == 0 && read == bursts*burst && got.Lost == 0 && got.Repeated == 0,
		"the reader has %d lines of %d, the log shrank %d times", read, bursts*burst, reader.shrunk)
}

// collector reads a log as it grows. Its figures are read after end.
type collector struct {
	text   strings.Builder
	shrunk int   // how often the log was shorter than before
	least  int64 // the smallest size after the log shrank
	stop   chan struct{}
	done   chan struct{}
}

func newCollector(t *testing.T, path string) *collector {
	t.Helper()
	file, err := os.Open(path)
	testutil.Must(t, err)
	c := &collector{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer file.Close()
		var at int64
		for {
			select {
			case <-c.stop:
				c.read(file, at)
				return
			case <-time.After(200 * time.Microsecond):
				at = c.read(file, at)
			}
		}
	}()
	return c
}

// read reads from an offset to the end, and returns the next offset.
func (c *collector) read(file *os.File, at int64) int64 {
	info, err := file.Stat()
	if err != nil {
		return at
	}
	if info.Size() < at {
		if c.shrunk == 0 || info.Size() < c.least {
			c.least = info.Size()
		}
		c.shrunk++
		at = 0
	}
	n, _ := io.Copy(&c.text, io.NewSectionReader(file, at, 1<<40)) // the next read gets the rest
	return at + n
}

// end reads the rest and returns the whole text.
func (c *collector) end() string {
	close(c.stop)
	<-c.done
	return c.text.String()
}
