package deps

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestServerHasNoTemplates: whoever runs templates finds methods by name, and then the linker keeps every method of
// every type, 4 MB of a program that stays in memory. (That cobra imports text/template is fine: it is not reached.)
func TestServerHasNoTemplates(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-buildvcs=false", "-deps", "-tags", "grpcnotrace", Module+"/cmd/criadapter").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	for _, banned := range []string{"html/template", "net/http/pprof", "golang.org/x/net/trace"} {
		if slices.Contains(packages, banned) {
			t.Errorf("cmd/criadapter needs %s", banned)
		}
	}
}
