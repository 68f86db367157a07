package podlogs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/speed"
)

const stamp = "2026-05-01T12:00:00.000000001Z"

// logged makes a log file.
func logged(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	testutil.WriteFile(t, path, content)
	return path
}

// TestPipeIsNoLog: opening a pipe does not block.
func TestPipeIsNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	testutil.Must(t, unix.Mkfifo(path, 0o666))
	err := Read(t.Context(), Options{Path: path, Tail: -1, Limit: -1})
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "not a plain file"), "got %v", err)
}

// output is safe for use by two goroutines.
type output struct{ testutil.Buffer }

func (o *output) has(t *testing.T, want string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if got := o.String(); !strings.HasSuffix(got, want) {
			return fmt.Errorf("no %q at the end of %q", want, got)
		}
		return nil
	})
}

func TestRead(t *testing.T) {
	content := "2026-05-01T11:00:00Z stdout F old\n" + stamp + " stdout P be\n" + stamp + " stderr F error\n" + stamp +
		" stdout F gun\n" +
		"nonsense\n" + stamp + " stdout F:tag a b  c\n" + stamp + " stdout F not written to its e"
	docker := `{"log":"one\n","stream":"stdout","time":"2026-05-01T12:00:00.1Z"}` + "\n" +
		`{"log":"be","stream":"stderr","time":"2026-05-01T12:00:00.2Z"}` + "\n" +
		`{"log":"gun\n","stream":"stderr","time":"2026-05-01T12:00:00.3Z"}` + "\n"
	since := time.Date(2026, 5, 1, 11, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		name, content  string
		opts           Options
		stdout, stderr string
		strange        int
	}{
		{"all", content, Options{Tail: -1, Limit: -1}, "old\nbegun\na b  c\n", "error\n", 1},
		{"since, with times", content, Options{Tail: -1, Limit: -1, Since: since, Timestamps: true},
			stamp + " begun\n" + stamp + " a b  c\n", stamp + " error\n", 1},
		{"the end", content, Options{Tail: 2, Limit: -1}, "a b  c\n", "", 0},
		{"nothing", content, Options{Tail: 0, Limit: -1}, "", "", 0},
		{"so many bytes", content, Options{Tail: -1, Limit: 8}, "old\nbe", "er", 0},
		{"a limit at the end of a line", content, Options{Tail: -1, Limit: 4}, "old\n", "", 0},
		{"Docker's format", docker, Options{Tail: -1, Limit: -1}, "one\n", "begun\n", 0},
		{"Docker's format with times", docker, Options{Tail: -1, Limit: -1, Timestamps: true},
			"2026-05-01T12:00:00.100000000Z one\n", "2026-05-01T12:00:00.200000000Z begun\n", 0},
		{"empty", "", Options{Tail: 3, Limit: -1}, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			strange := 0
			c.opts.Path, c.opts.Stdout, c.opts.Stderr = logged(t, c.content), &stdout, &stderr
			c.opts.Malformed = func(error) error { strange++; return nil }
			testutil.Must(t, Read(t.Context(), c.opts))
			testutil.Assert(t, stdout.String() == c.stdout && stderr.String() == c.stderr && strange == c.strange,
				"%q, %q, %d strange; want %q, %q, %d", stdout.String(), stderr.String(), strange, c.stdout, c.stderr,
				c.strange)
			stdout.Reset()
			c.opts.Stderr = nil
			if err := Read(t.Context(), c.opts); err != nil || c.opts.Limit < 0 && stdout.String() != c.stdout {
				t.Errorf("stdout alone: %q, %v", stdout.String(), err)
			}
		})
	}
	err := Read(t.Context(), Options{Path: filepath.Join(t.TempDir(), "none")})
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "no file: %v", err)
	broken := errors.New("broken")
	err = Read(t.Context(),
		Options{Path: logged(t, content), Tail: -1, Limit: -1, Malformed: func(error) error { return broken }})
	testutil.Assert(t, errors.Is(err, broken), "Malformed fails: %v", err)
}

func TestTailOfALargeLog(t *testing.T) {
	var content strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&content, "%s stdout F %d %s\n", stamp, i, strings.Repeat("x", i%200))
	}
	path := logged(t, content.String())
	for _, lines := range []int64{1, 2, 499, 4999, 5000, 6000} {
		var stdout bytes.Buffer
		testutil.Must(t, Read(t.Context(), Options{Path: path, Tail: lines, Limit: -1, Stdout: &stdout}))
		want := min(lines, 5000)
		got := strings.Count(stdout.String(), "\n")
		testutil.Assert(t, got == int(want) && strings.HasPrefix(stdout.String(), fmt.Sprintf("%d ", 5000-want)),
			"tail %d: %d lines from %.20q", lines, got, stdout.String())
	}
}

// following follows a log until noMore is called.
func following(t *testing.T, path string) (out *output, noMore func(), ended <-chan error) {
	t.Helper()
	out = &output{}
	var over atomic.Bool
	ended = testutil.Go(func() error {
		return Read(t.Context(), Options{
			Path: path, Tail: -1, Limit: -1, Stdout: out, Stderr: out,
			Running: func(context.Context) bool { return !over.Load() },
		})
	})
	return out, func() { over.Store(true) }, ended
}

func TestFollowThroughARotation(t *testing.T) {
	path := logged(t, stamp+" stdout F one\n")
	out, noMore, ended := following(t, path)
	out.has(t, "one\n")
	testutil.AppendFile(t, path, stamp+" stdout F tw")
	time.Sleep(20 * time.Millisecond)
	testutil.AppendFile(t, path, "o\n")
	out.has(t, "two\n")
	// The kubelet renames the file. The runtime writes to the renamed file until it reopens the log. Then the runtime
	// makes a new file.
	testutil.Must(t, os.Rename(path, path+".20260501-120000"))
	testutil.AppendFile(t, path+".20260501-120000", stamp+" stdout F three\n")
	out.has(t, "three\n")
	testutil.WriteFile(t, path, stamp+" stdout F four\n")
	out.has(t, "four\n")
	noMore()
	testutil.AppendFile(t, path, stamp+" stdout F last\n")
	testutil.Must(t, <-ended)
	got, want := out.String(), "one\ntwo\nthree\nfour\nlast\n"
	testutil.Assert(t, got == want, "got %q, want %q", got, want)
}

func TestFollowALinkThatIsEmptiedInPlace(t *testing.T) {
	file := logged(t, stamp+" stdout F one line that is long\n")
	link := filepath.Join(t.TempDir(), "1.log")
	testutil.Must(t, os.Symlink(file, link))
	out, noMore, ended := following(t, link)
	out.has(t, "long\n")
	testutil.WriteFile(t, file, stamp+" stdout F two\n")
	out.has(t, "two\n")
	testutil.Must(t, os.Remove(link))
	noMore()
	testutil.Must(t, <-ended)
}

func TestFollowIsGivenUp(t *testing.T) {
	out, idle := &output{}, make(chan struct{}, 100)
	path := logged(t, stamp+" stdout F one\n")
	stop := testutil.Background(t, func(ctx context.Context) error {
		return Read(ctx, Options{
			Path: path, Tail: -1, Limit: -1, Stdout: out, Running: func(context.Context) bool { return true },
			Flush: func() error { idle <- struct{}{}; return nil },
		})
	})
	<-idle
	testutil.Assert(t, out.String() == "one\n", "it waits with %q written", out.String())
	stop()
}

// checkLatency writes lines to a followed log, and checks that they are read on their events, not at the next checks.
func checkLatency(t *testing.T, out *output, path string) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	begun := time.Now()
	for i := range 5 {
		testutil.AppendFile(t, path, fmt.Sprintf("%s stdout F line %d\n", stamp, i))
		out.has(t, fmt.Sprintf("line %d\n", i))
	}
	speed.Check(t, "the reading of 5 lines", time.Since(begun), 4*checkPeriod)
}

func TestFollowLatency(t *testing.T) {
	path := logged(t, stamp+" stdout F one\n")
	out, noMore, ended := following(t, path)
	out.has(t, "one\n")
	checkLatency(t, out, path)
	noMore()
	testutil.Must(t, <-ended)
}

// TestFollowLatencyOfANewTarget: a link gets a target in another directory.
func TestFollowLatencyOfANewTarget(t *testing.T) {
	first, second := logged(t, stamp+" stdout F one\n"), logged(t, stamp+" stdout F two\n")
	link := filepath.Join(t.TempDir(), "1.log")
	testutil.Must(t, os.Symlink(first, link))
	out, noMore, ended := following(t, link)
	out.has(t, "one\n")
	checkLatency(t, out, first)
	testutil.Must(t, os.Symlink(second, link+".new"))
	testutil.Must(t, os.Rename(link+".new", link))
	out.has(t, "two\n")
	checkLatency(t, out, second)
	noMore()
	testutil.Must(t, <-ended)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", stamp + " stdout F text", stamp + " stderr P ", stamp + " stdout F:a:b x y",
		"x y z w", stamp + " stdin F x",
		stamp + " stdout", `{"log":"x\n","stream":"stdout","time":"` + stamp + `"}`, `{"stream":1}`, "{"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		parsed, err := parse(raw)
		switch {
		case err != nil:
		case !bytes.HasPrefix(raw, []byte("{")):
			testutil.Assert(t, bytes.HasSuffix(raw, parsed.text), "%q became %+v", raw, parsed)
		default:
			again, err := parse(inJSON(t, parsed))
			same := again.stderr == parsed.stderr && again.partial == parsed.partial && again.at.Equal(parsed.at) &&
				bytes.Equal(again.text, parsed.text)
			testutil.Assert(t, err == nil && same, "%q became %+v, and then %+v, %v", raw, parsed, again, err)
		}
	})
}

// inJSON writes a line in Docker's json-file format.
func inJSON(t *testing.T, l line) []byte {
	t.Helper()
	text, stream := string(l.text), "stdout"
	if l.stderr {
		stream = "stderr"
	}
	if !l.partial {
		text += "\n"
	}
	raw, err := json.Marshal(map[string]any{"log": text, "stream": stream, "time": l.at})
	testutil.Must(t, err)
	return raw
}
