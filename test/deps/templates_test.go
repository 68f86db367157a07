package deps

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestServerHasNoTemplates checks that no package of the server needs templates. They find methods by name, so the
// linker would keep every method of every type, which costs 4 MB of memory. Cobra's import of text/template is fine,
// because no code reaches it.
func TestServerHasNoTemplates(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-buildvcs=false", "-deps", "-tags", "grpcnotrace",
		Module+"/cmd/criadapter").Output()
	testutil.Must(t, err)
	packages := strings.Fields(string(out))
	for _, banned := range []string{"html/template", "net/http/pprof", "golang.org/x/net/trace"} {
		testutil.Assert(t, !slices.Contains(packages, banned), "cmd/criadapter needs %s", banned)
	}
}
