package machine

import (
	"context"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A command reaches the machine's shell with each of its words unchanged.
func TestCommandKeepsWords(t *testing.T) {
	words := []string{"printf", `%s\n`, "two words", "it's", `"$HOME" $(id) \`, ""}
	m := &Machine{image: "/image", dir: "/dir", port: 2222}
	args := m.command(context.Background(), words).Args
	out, err := exec.CommandContext(t.Context(), "sh", "-c", args[len(args)-1]).Output()
	testutil.Must(t, err)
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	testutil.Assert(t, reflect.DeepEqual(got, words[2:]), "got %q", got)
}
