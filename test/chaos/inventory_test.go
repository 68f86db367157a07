package chaos

import (
	"testing"
	"time"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/inventory"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func takeInventory(t *testing.T, env rigenv.Env, server *adapter.Server) inventory.Inventory {
	t.Helper()
	taken, err := inventory.Node{Env: env, Server: server}.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// awaitInventory returns what still differs from what is wanted after a while.
func awaitInventory(t *testing.T, env rigenv.Env, server *adapter.Server, wanted inventory.Inventory, others func(kind, name string) bool) string {
	t.Helper()
	left, err := inventory.Node{Env: env, Server: server}.Await(t.Context(), 10*time.Second, wanted, others)
	if err != nil {
		t.Fatal(err)
	}
	return left
}
