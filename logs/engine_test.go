package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

// engineLog writes log files as the engine's local driver does. It writes whole records, renames a full file and drops
// the oldest one.
type engineLog struct {
	t        *testing.T
	path     string
	maxFiles int
	maxSize  int64

	file *os.File
	size int64
}

func newEngineLog(t *testing.T, path string, maxFiles int, maxSize int64) *engineLog {
	t.Helper()
	testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	l := &engineLog{t: t, path: path, maxFiles: maxFiles, maxSize: maxSize}
	l.create()
	t.Cleanup(func() { l.file.Close() })
	return l
}

func (l *engineLog) create() {
	l.t.Helper()
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o640)
	testutil.Must(l.t, err)
	l.file, l.size = file, 0
}

func (l *engineLog) raw(data []byte) {
	l.t.Helper()
	if l.size >= l.maxSize {
		l.rotate()
	}
	n, err := l.file.Write(data)
	testutil.Must(l.t, err)
	l.size += int64(n)
}

func (l *engineLog) line(text string) {
	l.t.Helper()
	l.raw(localRecord(entry{unixNano: time.Now().UnixNano(), stream: stdout, line: []byte(text)}, false))
}

func (l *engineLog) rotate() {
	l.t.Helper()
	l.file.Close()
	if l.maxFiles == 1 {
		testutil.Must(l.t, os.Remove(l.path))
	}
	for n := l.maxFiles - 1; n > 0; n-- {
		err := os.Rename(generationPath(l.path, n-1), generationPath(l.path, n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.t.Fatal(err)
		}
	}
	l.create()
}

// lines writes the numbered lines from first to last and returns their CRI lines without times.
func (l *engineLog) lines(first, last int) []string {
	l.t.Helper()
	for i := first; i <= last; i++ {
		l.line("line " + strconv.Itoa(i))
	}
	return numbered(first, last)
}

// numbered returns the CRI lines of the numbered lines from first to last, without times.
func numbered(first, last int) []string {
	var lines []string
	for i := first; i <= last; i++ {
		lines = append(lines, fmt.Sprintf("stdout F line %d", i))
	}
	return lines
}

func newService(t *testing.T) *Service {
	t.Helper()
	s := New(Options{batchPause: time.Millisecond, retryPause: 10 * time.Millisecond})
	t.Cleanup(s.Close)
	return s
}

func start(t *testing.T, s *Service, source Source) {
	t.Helper()
	testutil.Must(t, s.Start(t.Context(), source), "Start")
}

func drain(t *testing.T, s *Service, id string) {
	t.Helper()
	testutil.Must(t, s.Drain(t.Context(), id), "Drain")
}

// wantLog drains a container's output and checks that its log has these lines and no others.
func wantLog(t *testing.T, s *Service, logPath string, want []string) {
	t.Helper()
	drain(t, s, "c")
	wantLines(t, logPath, want)
}

// wantLines checks the lines of a file in the CRI format.
func wantLines(t *testing.T, path string, want []string) {
	t.Helper()
	_, got := readCRI(t, path)
	equalLines(t, got, want)
}

// awaitNoFollower waits until the log of a removed or ended container is no longer followed.
func awaitNoFollower(t *testing.T, s *Service, id string) {
	t.Helper()
	testutil.Until(t, "the follower ends", func() bool { return s.follower(id) == nil })
}

// localLog is a container's output in the engine's own files.
func localLog(enginePath, logPath string) Source {
	return Source{ContainerID: "c", Driver: DriverLocal, Path: enginePath, LogPath: logPath}
}

// testLog is the output of container "c": the engine's log, a service, and the CRI log that the service writes.
type testLog struct {
	t      *testing.T
	engine *engineLog
	s      *Service
	source Source
	saved  *positions
}

// newTestLog returns an output that is not followed yet. The engine keeps at most files files of about size bytes.
func newTestLog(t *testing.T, files int, size int64) *testLog {
	t.Helper()
	enginePath, logPath := paths(t)
	o := &testLog{t: t, engine: newEngineLog(t, enginePath, files, size), s: newService(t), saved: &positions{}}
	o.source = localLog(enginePath, logPath)
	o.source.Save = o.saved.save
	return o
}

// follow is newTestLog with a follower.
func follow(t *testing.T, files int, size int64) *testLog {
	t.Helper()
	o := newTestLog(t, files, size)
	o.start()
	return o
}

// followOnSmallDisk is follow with the CRI log on a small disk.
func followOnSmallDisk(t *testing.T, files int, size int64) (o *testLog, disk string) {
	t.Helper()
	o, disk = newTestLog(t, files, size), smallDisk(t)
	o.source.LogPath = filepath.Join(disk, "0.log")
	o.start()
	return o, disk
}

func (o *testLog) start() {
	o.t.Helper()
	start(o.t, o.s, o.source)
}

func (o *testLog) drain() {
	o.t.Helper()
	drain(o.t, o.s, "c")
}

// restart ends the service and makes a new one, as a restart of criadapter would. The new one does not follow yet.
func (o *testLog) restart() {
	o.t.Helper()
	o.s = restart(o.t, o.s)
}

// keepPosition makes the next start resume at the position that was saved last.
func (o *testLog) keepPosition() {
	at := o.saved.get()
	o.source.Resume = &at
}

// wait waits until the CRI log has n lines.
func (o *testLog) wait(n int) []string {
	o.t.Helper()
	return waitLines(o.t, o.source.LogPath, n)
}

// log returns the lines of the CRI log without their times.
func (o *testLog) log() []string {
	o.t.Helper()
	_, lines := readCRI(o.t, o.source.LogPath)
	return lines
}

// want drains the output and checks that the CRI log has these lines and no others.
func (o *testLog) want(lines []string) {
	o.t.Helper()
	wantLog(o.t, o.s, o.source.LogPath, lines)
}

// paths returns where the engine and the kubelet would have a container's logs.
func paths(t *testing.T) (enginePath, logPath string) {
	dir := t.TempDir()
	return filepath.Join(dir, "containers", "c", "local-logs", "container.log"), filepath.Join(dir, "pods", "p", "c",
		"0.log")
}

// waitLines waits until the CRI log has that many lines.
func waitLines(t *testing.T, path string, n int) []string {
	t.Helper()
	var lines []string
	testutil.Eventually(t, func() error {
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if lines = wholeLines(t, path); len(lines) < n {
			return fmt.Errorf("%d lines in the CRI log, want %d", len(lines), n)
		}
		return nil
	})
	return lines
}

// positions is a checkpoint in memory.
type positions struct {
	mu   sync.Mutex
	last checkpoint.LogPosition
}

func (p *positions) save(_ context.Context, at checkpoint.LogPosition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = at
	return nil
}

func (p *positions) get() checkpoint.LogPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
