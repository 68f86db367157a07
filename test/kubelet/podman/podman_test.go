package podman

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testutil.Must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestManifests(t *testing.T) {
	path := write(t, "play.go", strings.ReplaceAll(`package e2e
var pod = '
kind: Pod
image: ' + IMAGE + '
'
var template = "\nkind: Pod\nname: {{.Name}}"
var other = "text"
var computed = '
kind: Pod
' + call()
var unknown = '
kind: Pod
' + OTHER
var (
	number = 1
	quota  = "\nkind: Secret"
)
const constant = "\nkind: Pod"
`, "'", "`"))
	got, err := Manifests(path, map[string]string{"IMAGE": "busybox"})
	testutil.Must(t, err)
	want := map[string]string{"pod": "\nkind: Pod\nimage: busybox\n", "quota": "\nkind: Secret"}
	testutil.Assert(t, maps.Equal(got, want), "%q", got)
	_, err = Manifests(write(t, "broken.go", "package"), nil)
	testutil.Assert(t, err != nil, "no error for a broken file")
}

func TestReport(t *testing.T) {
	rows, err := Report(write(t, "report.md", "| manifest | with | podman | kubelet-core |\n|---|---|---|---|\n"+
		"| `a` | `b`, `c` | runs | runs |\n| `d` | | fails | refused: `spec.x` |\n| `e` | | runs | waits: `y` |\n"))
	testutil.Must(t, err)
	_, err = Report(write(t, "half.md", "| `a | | runs | runs |\n"))
	testutil.Assert(t, err != nil, "no error for half a name")
	testutil.Assert(t, len(rows) == 3 && slices.Equal(rows["a"].With, []string{"b", "c"}), "%v", rows)
	for _, c := range []struct {
		name   string
		exit   int
		output string
		want   bool
	}{
		{"a", 0, "", true}, {"a", 1, "", false}, {"d", 1, "a: spec.x: no", true}, {"d", 0, "spec.x", false},
		{"d", 1, "spec.z", false}, {"e", 130, "y", true}, {"e", 0, "y", false},
	} {
		testutil.Equal(t, rows[c.name].Fits(c.exit, c.output), c.want, "%s with %d and %q", c.name, c.exit, c.output)
	}
	for name, text := range map[string]string{"twice": "| `a` | | x | y |\n| `a` | | x | y |\n"} {
		_, err := Report(write(t, "report.md", text))
		testutil.Assert(t, err != nil, "%s: no error", name)
	}
	_, err = Report("none.md")
	testutil.Assert(t, os.IsNotExist(err), "%v", err)
}
