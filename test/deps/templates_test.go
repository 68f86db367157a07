package deps

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestServerHasNoTemplates: templates find methods by name, so the linker keeps every method of every type: 4 MB more
// in memory. Cobra's import of text/template is fine, because no code reaches it.
func TestServerHasNoTemplates(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-buildvcs=false", "-deps", "-tags", "grpcnotrace",
		Module+"/cmd/criadapter").Output()
	testutil.Must(t, err)
	packages := strings.Fields(string(out))
	for _, banned := range []string{"html/template", "net/http/pprof", "golang.org/x/net/trace"} {
		testutil.Assert(t, !slices.Contains(packages, banned), "cmd/criadapter needs %s", banned)
	}
}
