package rigenv

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestControllersAt(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"version 2": {map[string]string{"cgroup.controllers": "cpu memory\n", "a/cgroup.procs": ""},
			[]string{"cpu", "memory"}},
		"version 2 without any": {map[string]string{"cgroup.controllers": "\n"}, nil},
		"version 1": {map[string]string{"cpu,cpuacct/cgroup.procs": "", "memory/cgroup.procs": "",
			"other/file": ""}, []string{"cpu", "cpuacct", "memory"}},
		"nothing": {nil, nil},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			testutil.WriteFile(t, filepath.Join(root, path), content)
		}
		got := controllersAt(root)
		testutil.Assert(t, slices.Equal(got, test.want), "%s: %v, want %v", name, got, test.want)
	}
}

// A test with a missing controller is skipped, and the message names the controller. A test that needs no controller
// goes on.
func TestRequireControllers(t *testing.T) {
	RequireControllers(t)
	fake := &fakeTB{}
	func() {
		defer func() { _ = recover() }()
		RequireControllers(fake, "no-such-controller")
	}()
	if !strings.HasPrefix(fake.ended, "skip: ") || !strings.Contains(fake.ended, "no-such-controller") ||
		!LackedControllers(fake.ended) {
		t.Errorf("ended by %q", fake.ended)
	}
	testutil.Assert(t, !LackedControllers("needs the private test rig"),
		"LackedControllers is true for a skip with another reason")
}
