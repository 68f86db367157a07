package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHasCompiler(t *testing.T) {
	t.Setenv("CC", "sh -with -arguments")
	testutil.Check(t, hasCompiler(t.Context()))
	t.Setenv("CC", "no-such-compiler")
	err := hasCompiler(t.Context())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "apt-get install gcc"),
		"got %v, want the package to install", err)
}

// fetchModules fails for a module that is neither cached nor available. The error names the module and the command that
// fetches it.
func TestModulesThatCannotBeFetched(t *testing.T) {
	dir := t.TempDir()
	text := "module example\n\ngo 1.26\n\nrequire example.com/missing v1.0.0\n"
	testutil.WriteFile(t, filepath.Join(dir, "go.mod"), text)
	t.Chdir(dir)
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", "off")
	err := fetchModules(t.Context())
	if err == nil || !strings.Contains(err.Error(), "run `go mod download`") ||
		!strings.Contains(err.Error(), "example.com/missing") {
		t.Errorf("got %v, want the missing module and the command that fetches it", err)
	}
}

// Packages without a test for the installed engine run where it is down.
func TestReadyEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///no/such/socket")
	dir := t.TempDir()
	source := "package a\n\nfunc TestSystemA(t *testing.T) {}\n"
	testutil.WriteFile(t, filepath.Join(dir, "a_test.go"), source)
	none, some := goPackage{Dir: dir}, goPackage{Dir: dir, TestGoFiles: []string{"a_test.go"}}
	testutil.Check(t, readyEngine(t.Context(), []goPackage{none}))
	err := readyEngine(t.Context(), []goPackage{none, some})
	if err == nil || !strings.Contains(err.Error(), "start it") || !strings.Contains(err.Error(), "HALF=private") {
		t.Errorf("got %v, want the advice to start the engine or to set HALF=private", err)
	}
}
