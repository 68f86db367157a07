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

// noControllers begins the message with which RequireControllers skips a test.
const noControllers = "the control groups here have no controller "

// RequireControllers skips a test if one of the named cgroup controllers ("cpu", "memory", "pids") is missing.
// ENGINE=29-cgroup2 has only the controllers that cgroup v1 on this machine does not use. A run on that engine accepts
// the skip. On any other engine, test/rig/skips.txt would have to name the test.
func RequireControllers(t testing.TB, controllers ...string) {
	t.Helper()
	have := Controllers()
	missing := slices.DeleteFunc(slices.Clone(controllers),
		func(name string) bool { return slices.Contains(have, name) })
	if len(missing) > 0 {
		t.Skip(noControllers + strings.Join(missing, ", ") + " that this test is about")
	}
}

// LackedControllers says, by the output of a skipped test, whether RequireControllers skipped it.
func LackedControllers(output string) bool { return strings.Contains(output, noControllers) }

// Controllers are the available cgroup controllers.
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
