package nri

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPlugins(t *testing.T) {
	dir := t.TempDir()
	names, err := Plugins(filepath.Join(dir, "missing"))
	testutil.Assert(t, err == nil && len(names) == 0, "a missing directory: %v, %v", names, err)
	for name, mode := range map[string]os.FileMode{"10-logger": 0o755, "README": 0o644} {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	names, err = Plugins(dir)
	testutil.Assert(t, err == nil && strings.Join(names, " ") == "10-logger", "%v, %v", names, err)
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "logger"), nil, 0o755))
	_, err = Plugins(dir)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "/logger"), "%v", err)
}
