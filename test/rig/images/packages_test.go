package images

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPackagesWithNothingMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "header.h")
	testutil.WriteFile(t, file, "")
	tools := []Tool{{Program: "sh", Package: "no-such-package"}, {File: file, Package: "no-such-package"}}
	testutil.Check(t, Packages(t.Context(), tools...))
}

// Where nothing can be installed, the error names the programs and the packages, each once.
func TestPackagesSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no apt-get, hence not Debian
	err := Packages(t.Context(), Tool{Program: "no-such-a", Package: "package-1"},
		Tool{File: "/no-such-b", Package: "package-1"}, Tool{Program: "no-such-c", Package: "package-0"})
	testutil.Require(t, err != nil, "no error")
	for _, want := range []string{"no-such-a, /no-such-b, no-such-c", "package-0 package-1"} {
		testutil.Assert(t, strings.Contains(err.Error(), want), "%q lacks %q", err, want)
	}
}

// A static busybox is refused: its shell would run applets that a test has hidden.
func TestStaticProgramIsRefused(t *testing.T) {
	program, err := compile(t.Context(), "nonewprivs", runtime.GOARCH)
	testutil.Must(t, err)
	path := filepath.Join(t.TempDir(), "busybox")
	testutil.Must(t, os.WriteFile(path, program, 0o755))
	found, err := readHostProgram(path)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "static"), "got %+v, %v", found, err)
	_, err = readHostProgram("/etc/passwd")
	testutil.Assert(t, err != nil, "a text file is not an error")
}
