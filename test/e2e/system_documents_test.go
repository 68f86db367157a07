package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/docs/fence"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestSystemDocuments runs the documents' commands for the tree, unchanged, on the installed engine.
func TestSystemDocuments(t *testing.T) {
	rigenv.RequireSystem(t)
	root := filepath.Join("..", "..")
	documents, err := fence.Documents(root)
	testutil.Must(t, err)
	ran := 0
	for _, document := range documents {
		script, blocks := fence.Script(document.Blocks, fence.Tree)
		if ran += blocks; blocks == 0 {
			continue
		}
		command := exec.CommandContext(t.Context(), "bash", "-c", script)
		command.Dir, command.Env = root, readersEnviron()
		output, err := command.CombinedOutput()
		testutil.Assert(t, err == nil, "%s: %v\n%s", document.Path, err, output)
		t.Logf("%s: %d blocks, the last lines:\n%s", document.Path, blocks, output[max(0, len(output)-800):])
	}
	testutil.Assert(t, ran >= 2, "only %d blocks were run", ran)
}

// readersEnviron is the environment without the variables of the rig and of continuous integration.
func readersEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "CI=") || strings.HasPrefix(variable, "CRIADAPTER_") ||
			strings.HasPrefix(variable, "MAKE")
	})
}
