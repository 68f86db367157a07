package machine

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A machine whose emulator cannot be started can be closed.
func TestEmulatorDoesNotStart(t *testing.T) {
	t.Setenv("PATH", "")
	m := &Machine{dir: t.TempDir()}
	err := m.emulate()
	testutil.Assert(t, err != nil, "an emulator was started without a PATH")
	testutil.Check(t, m.Close())
}
