package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// staticHost puts a static program "tool" on PATH, as Debian's busybox-static does. The apt-get on PATH downloads from
// the returned directory, and the dpkg-deb takes tar archives. The cache is empty.
func staticHost(t *testing.T) (archive string) {
	t.Helper()
	static, err := compile(t.Context(), "nonewprivs", runtime.GOARCH)
	testutil.Must(t, err)
	bin, archive := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"tool":     string(static),
		"dpkg-deb": "#!/bin/sh\n[ \"$1\" = --extract ] && exec tar --extract --file \"$2\" --directory \"$3\"\n",
		"apt-get": "#!/bin/sh\ncase $* in '-q download tool') cp " + archive +
			"/*.deb . ;; *) echo \"apt-get $*: no network\" >&2; exit 100 ;; esac\n",
	} {
		testutil.Must(t, os.WriteFile(filepath.Join(bin, name), []byte(content), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return archive
}

// addPackage makes the Debian package "tool" with a dynamically linked program of that name.
func addPackage(t *testing.T, archive string) {
	t.Helper()
	tree := t.TempDir()
	dynamic, err := os.ReadFile("/bin/sh")
	testutil.Must(t, err)
	testutil.Must(t, os.Mkdir(filepath.Join(tree, "bin"), 0o755))
	testutil.Must(t, os.WriteFile(filepath.Join(tree, "bin/tool"), dynamic, 0o755))
	out, err := exec.CommandContext(t.Context(), "tar", "--create", "--file", filepath.Join(archive, "tool.deb"),
		"--directory", tree, "bin").CombinedOutput()
	testutil.Require(t, err == nil, "%v\n%s", err, out)
}

// The host keeps its static program. The images get the program of the Debian package, which stays in the cache.
func TestStaticProgramIsReplaced(t *testing.T) {
	archive := staticHost(t)
	addPackage(t, archive)
	tool := Tool{Program: "tool", Package: "tool"}
	path, err := dynamicProgram(t.Context(), tool)
	testutil.Must(t, err)
	program, err := readHostProgram(path)
	testutil.Assert(t, err == nil && len(program.needs) >= 2, "%s: %+v, %v", path, program, err)
	host, err := FindTool("tool")
	testutil.Assert(t, err == nil && host != path, "the host's program is %s, %v", host, err)
	testutil.Must(t, os.Remove(filepath.Join(archive, "tool.deb")))
	again, err := dynamicProgram(t.Context(), tool)
	testutil.Assert(t, err == nil && again == path, "a second time: %s, %v", again, err)
}

// Without a package registry the error names the static program and the package.
func TestStaticProgramWithoutItsPackage(t *testing.T) {
	staticHost(t)
	_, err := dynamicProgram(t.Context(), Tool{Program: "tool", Package: "tool"})
	testutil.Require(t, err != nil, "no error")
	for _, want := range []string{"tool is static", "Debian's package tool", "no network"} {
		testutil.Assert(t, strings.Contains(err.Error(), want), "%q lacks %q", err, want)
	}
}
