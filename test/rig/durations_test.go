package main

import (
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/results"
)

// The package whose tests took the longest is first in the next run. Before the first run, it is the one with the
// largest tests.
func TestLongestPackageIsFirst(t *testing.T) {
	dir, linked := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		"go.mod":            "module example\n\ngo 1.26\n",
		"long/a_test.go":    "package long\n",
		"large/b_test.go":   "package large\n\n// This file is the larger one.\n",
		"unknown/c_test.go": "package unknown\n",
	} {
		testutil.WriteFile(t, filepath.Join(dir, path), content)
	}
	t.Chdir(dir)
	first := func() string {
		packages, err := listPackages(t.Context(), []string{"./..."}, lastDurations(linked))
		testutil.Must(t, err)
		testutil.Require(t, len(packages) == 3, "packages %+v", packages)
		return packages[0].short()
	}
	testutil.Equal(t, first(), "large", "before the first run")
	testutil.Must(t, recordDurations(linked, []results.Test{
		{Package: "large", Name: "TestA", Seconds: 1}, {Package: "long", Name: "TestA", Seconds: 1},
		{Package: "long", Name: "TestB", Seconds: 0.5},
	}))
	testutil.Equal(t, first(), "long", "in the next run")
}
