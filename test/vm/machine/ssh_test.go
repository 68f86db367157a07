package machine

import (
	"context"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

// A command reaches the machine's shell with each of its words as it was.
func TestCommandKeepsWords(t *testing.T) {
	words := []string{"printf", `%s\n`, "two words", "it's", `"$HOME" $(id) \`, ""}
	m := &Machine{image: "/image", dir: "/dir", port: 2222}
	args := m.command(context.Background(), words).Args
	out, err := exec.CommandContext(t.Context(), "sh", "-c", args[len(args)-1]).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !reflect.DeepEqual(got, words[2:]) {
		t.Errorf("got %q", got)
	}
}
