package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	const one = "package a\n\nfunc FuzzOne(f *testing.F) {}\n\nfunc FuzzTwo(f *testing.F) {}\n"
	for _, path := range []string{
		"a/a_test.go", "a/b/b_test.go", "a/a.go", "build/c/c_test.go", "a/testdata/d_test.go",
	} {
		testutil.WriteFile(t, filepath.Join(root, path), one)
	}
	testutil.WriteFile(t, filepath.Join(root, "e/e_test.go"), "package e\n\nfunc FuzzHelper(t *testing.T) {}\n")
	inA := []target{{"a", "FuzzOne"}, {"a", "FuzzTwo"}}
	inB := []target{{"a/b", "FuzzOne"}, {"a/b", "FuzzTwo"}}
	for _, one := range []struct {
		packages []string
		want     []target
	}{
		{nil, append(inA, inB...)}, {[]string{"./..."}, append(inA, inB...)}, {[]string{"./a"}, inA},
		{[]string{"./a/b/"}, inB}, {[]string{"./e"}, nil},
	} {
		got, err := find(root, one.packages)
		testutil.Must(t, err)
		testutil.Assert(t, slices.Equal(got, one.want), "%v: got %v, want %v", one.packages, got, one.want)
	}
	testutil.Equal(t, target{"a/b", "FuzzOne"}.logName(), "a_b_FuzzOne.log", "the log's name")
}

// Only a log whose last line says that the test passed and took long enough keeps the test from running again.
func TestResume(t *testing.T) {
	const log = "fuzz: elapsed: 3s, execs: 12 (4/sec), new interesting: 1 (total: 5)\n" +
		"fuzz: elapsed: 6s, execs: 34 (7/sec), new interesting: 2 (total: 6)\nPASS\n"
	line := passedLine(10*time.Minute, log)
	testutil.Equal(t, line, "passed after 10m0s, 34 executions, 2 new inputs, 6 inputs in all", "the last line")
	path := filepath.Join(t.TempDir(), "a.log")
	for _, one := range []struct {
		text string
		done bool
	}{
		{log, false}, {log + line + "\n", true}, {log + passedLine(time.Minute, log) + "\n", false}, {"", false},
		{line + "\nFAIL\n", false}, {passedLine(10*time.Minute, "PASS\n"), true},
	} {
		testutil.WriteFile(t, path, one.text)
		_, done := passed(path, 10*time.Minute)
		testutil.Assert(t, done == one.done, "%q: left out is %t", one.text, done)
	}
	_, done := passed(path+".none", 0)
	testutil.Assert(t, !done, "without a log the test was left out")
}

// A log without a failing input is no failure if the test's time was over.
func TestOnlyLate(t *testing.T) {
	const late = "fuzz: elapsed: 10s, execs: 3 (0/sec)\n--- FAIL: FuzzOne (10.01s)\n" +
		"    context deadline exceeded\nFAIL\n"
	for log, want := range map[string]bool{
		late: true,
		"--- FAIL: FuzzOne (10.01s)\n    --- FAIL: FuzzOne (0.00s)\n        a_test.go:1: bad\n    \n" +
			"    Failing input written to testdata/fuzz/FuzzOne/ab\nFAIL\n": false,
		late + "Failing input written to testdata/fuzz/FuzzOne/ab\n": false,
		"panic: context deadline exceeded\nFAIL\n":                   false,
	} {
		testutil.Assert(t, onlyLate(log) == want, "%q: only late is %t", log, !want)
	}
}
