package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// linkedRecord is a line of the engine's json-file.
func linkedRecord(number int) string {
	return string(
		jsonLine(
			entry{unixNano: time.Unix(1_700_000_000, int64(number)).UnixNano(), stream: stdout,
				line: fmt.Append(nil, "line ", number)}))
}

func linkedRecords(first, last int) string {
	var text strings.Builder
	for i := first; i <= last; i++ {
		text.WriteString(linkedRecord(i))
	}
	return text.String()
}

// criadapter is killed at each step of a reopening, and the kubelet renames the log back or repeats ReopenContainerLog.
// The files together have each line once and in order. Later lines appear at the log's path.
func TestReopenLinkThroughKills(t *testing.T) {
	const rotated = ".20240101-000000"
	kills := map[string]func(t *testing.T, enginePath, rotatedPath, logPath string){
		"before the copy": func(*testing.T, string, string, string) {},
		"in the copy": func(t *testing.T, enginePath, _, logPath string) {
			testutil.WriteFile(t, hidden(logPath, copySuffix), linkedRecords(1, 50)+"{")
		},
		"after the copy's rename": func(t *testing.T, enginePath, rotatedPath, _ string) {
			replace(t, rotatedPath, linkedRecords(1, 100))
		},
		"after the emptying": func(t *testing.T, enginePath, rotatedPath, _ string) {
			replace(t, rotatedPath, linkedRecords(1, 100))
			empty(t, enginePath)
		},
		"after the new link": func(t *testing.T, enginePath, rotatedPath, logPath string) {
			replace(t, rotatedPath, linkedRecords(1, 100))
			empty(t, enginePath)
			testutil.Must(t, os.Symlink(enginePath, logPath))
		},
	}
	for name, kill := range kills {
		for _, renamedBack := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, renamed back %t", name, renamedBack), func(t *testing.T) {
				enginePath, logPath := linked(t, linkedRecords(1, 100))
				rename(t, logPath, logPath+rotated)
				kill(t, enginePath, logPath+rotated, logPath)
				testutil.AppendFile(t, enginePath, linkedRecords(101, 120))
				if renamedBack {
					rename(t, logPath+rotated, logPath)
				}
				if err := RestoreLink(enginePath, "", logPath); err != nil { // at the next start
					t.Fatal(err)
				}
				if !renamedBack {
					rename(t, logPath+rotated, logPath) // a slower kubelet
					testutil.Must(t, RestoreLink(enginePath, "", logPath))
				}
				testutil.AppendFile(t, enginePath, linkedRecords(121, 130))
				text, err := os.ReadFile(logPath)
				testutil.Assert(t, err == nil && strings.HasSuffix(string(text), linkedRecords(101, 130)),
					"the log's path has %d bytes that do not end with the last lines: %v", len(text), err)
				rename(t, logPath, logPath+".29990101-000000") // the next rotation
				testutil.Must(t, ReopenLink(t.Context(), enginePath, "", logPath, os.Getpid()))
				testutil.AppendFile(t, enginePath, linkedRecords(131, 140))
				got, want := allLinked(t, logPath), linkedRecords(1, 140)
				testutil.Assert(t, got == want,
					"%d lines in all files, want 140; the same lines: %t", strings.Count(got, "\n"), got == want)
				leftover, err := filepath.Glob(filepath.Join(filepath.Dir(logPath), ".*"))
				testutil.Assert(t, err == nil && len(leftover) == 0, "left over: %v, %v", leftover, err)
			})
		}
	}
}

// A plain file at the log's path stays if it is in the CRI format or empty.
func TestRestoreLinkLeavesOthersAlone(t *testing.T) {
	for name, content := range map[string]string{
		"CRI format": "2024-01-01T00:00:00Z stdout F line 1\n",
		"empty":      "",
	} {
		t.Run(name, func(t *testing.T) {
			enginePath, logPath := linked(t, linkedRecords(1, 10))
			replace(t, logPath, content)
			testutil.Must(t, RestoreLink(enginePath, "", logPath))
			testutil.Holds(t, logPath, content)
			wantFiles(t, filepath.Dir(logPath), 1)
		})
	}
	if err := RestoreLink("/nonexistent/c-json.log", "", "/nonexistent/0.log"); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// replace replaces a link with a plain file.
func replace(t *testing.T, path, content string) {
	t.Helper()
	testutil.WriteFile(t, path+"~", content)
	rename(t, path+"~", path)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	testutil.Must(t, os.Rename(from, to))
}

// allLinked returns the content of the rotated logs and of the log, the oldest first.
func allLinked(t *testing.T, logPath string) string {
	t.Helper()
	paths, err := filepath.Glob(logPath + ".*")
	testutil.Must(t, err)
	slices.Sort(paths)
	var all strings.Builder
	for _, path := range append(paths, logPath) {
		text, err := os.ReadFile(path)
		testutil.Must(t, err)
		all.Write(text)
	}
	return all.String()
}
