package rigenv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cgroupRoot is where control groups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// noControllers begins what RequireControllers skips a test with.
const noControllers = "the control groups here have no controller "

// RequireControllers skips a test that needs cgroup controllers ("cpu", "memory", "pids") which are not there:
// ENGINE=29-cgroup2 has those alone that the machine's version 1 leaves. A run on that engine passes all the same; on
// any other the skip is one that test/rig/skips.txt would have to name.
func RequireControllers(t testing.TB, controllers ...string) {
	t.Helper()
	have := Controllers()
	missing := slices.DeleteFunc(slices.Clone(controllers),
		func(name string) bool { return slices.Contains(have, name) })
	if len(missing) > 0 {
		t.Skip(noControllers + strings.Join(missing, ", ") + " that this test is about")
	}
}

// LackedControllers says whether what a skipped test wrote is that RequireControllers skipped it.
func LackedControllers(output string) bool { return strings.Contains(output, noControllers) }

// Controllers are the cgroup controllers that are there.
func Controllers() []string { return controllersAt(cgroupRoot) }

// controllersAt are the controllers of the hierarchies that are mounted at and below root.
func controllersAt(root string) []string {
	if content, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		return strings.Fields(string(content)) // version 2
	}
	var found []string
	hierarchies, _ := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
	for _, file := range hierarchies {
		found = append(found, strings.Split(filepath.Base(filepath.Dir(file)), ",")...)
	}
	return found
}
