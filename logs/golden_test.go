package logs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The golden files were written by Docker 20.10.24 and by Moby 29.8 (API 1.56). With a TTY they have the output of
// "echo out; echo err >&2; printf partial". Without a TTY they have the output of this script:
//
//	echo 'hello stdout'; echo 'hello stderr' >&2; echo
//	printf 'bad \377\200 utf8\n'; printf 'nul \000 inside\n'; printf 'crlf line\r\n'
//	40000 times a, 16384 times b, 16385 times c, each with a line feed
//	printf 'no newline at the end'
//
// The engine reads the two streams with a goroutine each, so the line of stderr may be anywhere.

// goldenLines is the CRI log of the script without the times.
func goldenLines(badUTF8 string) []string {
	a, b, c := strings.Repeat("a", 16384), strings.Repeat("b", 16384), strings.Repeat("c", 16384)
	return []string{
		"stdout F hello stdout",
		"stderr F hello stderr",
		"stdout F ",
		"stdout F bad " + badUTF8 + " utf8",
		"stdout F nul \x00 inside",
		"stdout F crlf line\r",
		"stdout P " + a,
		"stdout P " + a,
		"stdout F " + strings.Repeat("a", 40000-2*16384),
		"stdout P " + b,
		"stdout F ",
		"stdout P " + c,
		"stdout F c",
		"stdout P no newline at the end",
	}
}

func TestGoldenFiles(t *testing.T) {
	plain := goldenLines("\xff\x80")
	plain[0], plain[1] = plain[1], plain[0]
	all := goldenLines("\xff\x80")
	late := slices.Concat(all[:1], all[2:13], all[1:2], all[13:])
	tests := []struct {
		file, driver, first string
		want                []string
	}{
		{"docker-20.10-local.log", DriverLocal, "2026-11-21T08:59:36.871143192Z", plain},
		{"docker-20.10-json-file.log", DriverJSONFile, "2026-11-21T08:59:37.274730332Z", goldenLines("\ufffd\ufffd")},
		{"docker-20.10-local-tty.log", DriverLocal, "2026-11-21T08:59:37.699248533Z",
			[]string{"stdout F out\r", "stdout F err\r", "stdout P partial"}},
		{"docker-20.10-json-file-tty.log", DriverJSONFile, "2026-11-21T08:59:38.302022763Z",
			[]string{"stdout F out\r", "stdout F err\r", "stdout P partial"}},
		{"docker-29-local.log", DriverLocal, "2026-11-21T10:47:49.287280551Z", late},
		{"docker-29-json-file.log", DriverJSONFile, "2026-11-21T10:47:50.216380055Z", goldenLines("\ufffd\ufffd")},
		{"docker-29-local-tty.log", DriverLocal, "2026-11-21T10:47:49.8493085Z",
			[]string{"stdout F out\r", "stdout F err\r", "stdout P partial"}},
		{"docker-29-json-file-tty.log", DriverJSONFile, "2026-11-21T10:47:50.555564313Z",
			[]string{"stdout F out\r", "stdout F err\r", "stdout P partial"}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			dir := t.TempDir()
			content, err := os.ReadFile(filepath.Join("testdata", tt.file))
			testutil.Must(t, err)
			path := filepath.Join(dir, "container.log")
			testutil.Must(t, os.WriteFile(path, content, 0o600))
			s := newService(t)
			logPath := filepath.Join(dir, "pod", "0.log")
			start(t, s, Source{ContainerID: "c", Driver: tt.driver, Path: path, LogPath: logPath})
			drain(t, s, "c")
			times, lines := readCRI(t, logPath)
			equalLines(t, lines, tt.want)
			testutil.Assert(t, times[0] == tt.first, "the first entry has the time %s, want %s", times[0], tt.first)
		})
	}
}

// wholeLines reads a CRI log that may be in the middle of a write and returns its whole lines without the times.
func wholeLines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	testutil.Must(t, err)
	var lines []string
	for line := range strings.Lines(string(content)) {
		if line, whole := strings.CutSuffix(line, "\n"); whole {
			_, rest, _ := strings.Cut(line, " ")
			lines = append(lines, rest)
		}
	}
	return lines
}

// readCRI reads a CRI log and returns its times and the rest of its lines. It fails the test when a line has no valid
// time or the last line is not whole.
func readCRI(t *testing.T, path string) (times, lines []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	testutil.Must(t, err)
	return splitCRI(t, content)
}

// splitCRI is readCRI for content that was already read.
func splitCRI(t *testing.T, content []byte) (times, lines []string) {
	t.Helper()
	if len(content) == 0 {
		return nil, nil
	}
	text, whole := strings.CutSuffix(string(content), "\n")
	if !whole {
		t.Fatalf("the last line is not whole: %.100q", text[strings.LastIndexByte(text, '\n')+1:])
	}
	for line := range strings.SplitSeq(text, "\n") {
		at, rest, _ := strings.Cut(line, " ")
		_, err := time.Parse(time.RFC3339Nano, at)
		testutil.Require(t, err == nil, "line %.100q: %v", line, err)
		times, lines = append(times, at), append(lines, rest)
	}
	return times, lines
}

func equalLines(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%d lines, want %d; missing: %.100q", len(got), len(want), want[i])
		case i >= len(want):
			t.Fatalf("%d lines, want %d; too many: %.100q", len(got), len(want), got[i])
		case got[i] != want[i]:
			t.Fatalf("line %d is %.100q (%d bytes), want %.100q (%d bytes)", i, got[i], len(got[i]), want[i],
				len(want[i]))
		}
	}
}
