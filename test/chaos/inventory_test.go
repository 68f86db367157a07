package chaos

import (
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/inventory"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func takeInventory(t *testing.T, env rigenv.Env, server *adapter.Server) inventory.Inventory {
	t.Helper()
	taken, err := inventory.Node{Env: env, Server: server}.Take(t.Context())
	testutil.Must(t, err)
	return taken
}

// settleTime is more than an engine needs to end processes and to remove mounts after its answer. It is less than
// patience, because each step of a walk may wait for it.
const settleTime = 2 * time.Minute

// awaitInventory waits for an inventory and returns the differences that stay.
func awaitInventory(
	t *testing.T, env rigenv.Env, server *adapter.Server, wanted inventory.Inventory,
	others func(kind, name string) bool,
) string {
	t.Helper()
	left, err := inventory.Node{Env: env, Server: server}.Await(t.Context(), settleTime, wanted, others)
	testutil.Must(t, err)
	return left
}
