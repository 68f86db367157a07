package testutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// WriteFile makes or replaces a file, and the directories that it needs.
func WriteFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// AppendFile writes at the end of a file that exists.
func AppendFile(t testing.TB, path, content string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
}

// Exists fails the test, unless the path is there, and goes on. The context says what the path is.
func Exists(t testing.TB, path string, context ...string) {
	t.Helper()
	_, err := os.Stat(path)
	Check(t, err, context...)
}

// Holds fails the test, unless the file has this content, and goes on. The context says what the file is.
func Holds(t testing.TB, path, want string, context ...string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		Check(t, fmt.Errorf("%s holds %q (%v), want %q", path, got, err, want), context...)
	}
}

// Gone fails the test if the path exists, and goes on. The context says what a file there would mean.
func Gone(t testing.TB, path string, context ...string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v): %s", path, err, strings.Join(context, ": "))
	}
}
