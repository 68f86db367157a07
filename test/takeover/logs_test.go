package takeover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// logPath is the path of a container's log in the kubelet's directory of logs.
func (n *node) logPath(pod, container string, attempt int) string {
	matches, err := filepath.Glob(
		filepath.Join(n.logs(), "shop_"+pod+"-node_*", container, strconv.Itoa(attempt)+".log"))
	testutil.Require(n.t, err == nil && len(matches) == 1,
		"the logs of %s/%s are %v, %v; want one", pod, container, matches, err)
	return matches[0]
}

// lineNumber returns the number in "line N" of a log line in either format. It returns false for other lines.
func lineNumber(line []byte) (int, bool) {
	text := string(line)
	if bytes.HasPrefix(line, []byte("{")) {
		var record struct{ Log string }
		if json.Unmarshal(line, &record) != nil {
			return 0, false
		}
		text = record.Log
	}
	_, number, found := strings.Cut(text, "line ")
	parsed, err := strconv.Atoi(strings.TrimSpace(number))
	return parsed, found && err == nil
}

// wantContiguous checks that the numbers in a log in the CRI format begin with first and go up by one to until or
// higher.
func (n *node) wantContiguous(path string, first, until int) {
	n.t.Helper()
	testutil.EventuallyWithin(n.t, patience, filepath.Base(filepath.Dir(path))+" is logged on", func() error {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a plain file", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		next := first
		for line := range bytes.Lines(text) {
			if number, ok := lineNumber(line); ok {
				testutil.Require(n.t, number == next, "%s: line %d comes after line %d", path, number, next-1)
				next++
			}
		}
		if next <= until {
			return fmt.Errorf("the log ends at line %d", next-1)
		}
		return nil
	})
}

// lines returns the numbers of the first and the last line in a log of either format, -1 without lines.
func (n *node) lines(path string) (first, last int) {
	n.t.Helper()
	text, err := os.ReadFile(path)
	testutil.Must(n.t, err)
	first, last = -1, -1
	for line := range bytes.Lines(text) {
		if number, ok := lineNumber(line); ok {
			if first < 0 {
				first = number
			}
			last = number
		}
	}
	return first, last
}

func (n *node) lastLine(path string) int {
	n.t.Helper()
	_, last := n.lines(path)
	return last
}

// reader counts how often each line was read.
type reader struct {
	mu    sync.Mutex
	times map[int]int
}

func (r *reader) read(line []byte) {
	if number, ok := lineNumber(line); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.times == nil {
			r.times = map[int]int{}
		}
		r.times[number]++
	}
}

// sum returns how many lines were read, how many of them more than once, and how many lines before the last one are
// missing.
func (r *reader) sum() (lines, twice, missing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := 0
	for number, times := range r.times {
		last = max(last, number)
		if times > 1 {
			twice++
		}
	}
	return len(r.times), twice, last + 1 - len(r.times)
}

func (r *reader) last() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := -1
	for number := range r.times {
		last = max(last, number)
	}
	return last
}

// collect reads a log as collectors do (fluent-bit, promtail, vector), by its path and through links. After a change of
// the inode it reads the old file for the time wait, and then the new one.
func collect(ctx context.Context, path string, wait time.Duration, r *reader) error {
	var file *os.File
	var inode uint64
	var rest []byte
	defer func() { _ = file.Close() }()
	drain := func() error {
		text, err := io.ReadAll(file)
		rest = append(rest, text...)
		for {
			line, after, found := bytes.Cut(rest, []byte("\n"))
			if !found {
				return err
			}
			r.read(line)
			rest = after
		}
	}
	for ctx.Err() == nil {
		info, err := os.Stat(path)
		if err == nil && info.Sys().(*syscall.Stat_t).Ino != inode {
			for until := time.Now().Add(wait); file != nil &&
				time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				if err := drain(); err != nil {
					return err
				}
			}
			if file != nil {
				if err := errors.Join(drain(), file.Close()); err != nil {
					return err
				}
			}
			inode, rest = 0, nil
			if file, err = os.Open(path); err == nil {
				if info, err = file.Stat(); err == nil { // the log may have been replaced meanwhile
					inode = info.Sys().(*syscall.Stat_t).Ino
				}
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if file != nil {
			if err := drain(); err != nil {
				return err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
