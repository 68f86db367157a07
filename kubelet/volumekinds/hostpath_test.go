package volumekinds

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHostPathTypes(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "file")
	testutil.Must(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		path string
		kind v1.HostPathType
		ok   bool
	}{
		{directory, v1.HostPathUnset, true},
		{filepath.Join(directory, "nothing"), v1.HostPathUnset, true},
		{directory, v1.HostPathDirectory, true},
		{file, v1.HostPathDirectory, false},
		{filepath.Join(directory, "nothing"), v1.HostPathDirectory, false},
		{file, v1.HostPathFile, true},
		{directory, v1.HostPathFile, false},
		{filepath.Join(directory, "new/dir"), v1.HostPathDirectoryOrCreate, true},
		{file, v1.HostPathDirectoryOrCreate, false},
		{filepath.Join(directory, "new/file"), v1.HostPathFileOrCreate, true},
		{filepath.Join(directory, "without/parent"), v1.HostPathFileOrCreate, false},
		{directory, v1.HostPathFileOrCreate, false},
		{"/dev/null", v1.HostPathCharDev, true},
		{"/dev/null", v1.HostPathBlockDev, false},
		{"/dev/null", v1.HostPathSocket, false},
		{directory, "Floppy", false},
	} {
		err := CheckHostPath(&v1.HostPathVolumeSource{Path: c.path, Type: &c.kind})
		testutil.Assert(t, (err == nil) == c.ok, "%s as %q: %v, want ok %t", c.path, c.kind, err, c.ok)
	}
}
