package chaos

import (
	"os"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/badplugins"
)

// TestMain makes the test program act as a CNI plugin if it was started through a plugin's name in a directory of
// badplugins.
func TestMain(m *testing.M) {
	badplugins.ActAsPlugin()
	os.Exit(m.Run())
}

// newBadPlugins makes plugins that are removed at the end of the test.
func newBadPlugins(t *testing.T, workDir, cniBinDir string) badplugins.Plugins {
	t.Helper()
	plugins, err := badplugins.New(workDir, cniBinDir)
	t.Cleanup(func() { _ = os.RemoveAll(plugins.Dir) })
	testutil.Must(t, err)
	return plugins
}
