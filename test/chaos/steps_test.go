package chaos

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// named finds the steps in the sources, see package internal/step.
var named = regexp.MustCompile(`step\.At\("([^"]+)"\)`)

// sourceSteps returns the names of all steps in the sources.
func sourceSteps(t *testing.T) []string {
	t.Helper()
	var steps []string
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "build", "test", "step"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range named.FindAllSubmatch(text, -1) {
			steps = append(steps, string(found[1]))
		}
		return err
	})
	testutil.Must(t, err)
	slices.Sort(steps)
	for i, name := range steps {
		if i > 0 && name == steps[i-1] {
			t.Errorf("two steps are called %q", name)
		}
	}
	return steps
}

// withSteps returns env with a criadapter that can kill itself at a step.
func withSteps(t *testing.T, env rigenv.Env) rigenv.Env {
	t.Helper()
	env.Criadapter = filepath.Join(t.TempDir(), "criadapter")
	_, err := program.Output(t.Context(), "../..", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-tags",
		"grpcnotrace steps", "-o", env.Criadapter, "./cmd/criadapter")
	testutil.Must(t, err, "building the program with the tag steps")
	return env
}

// point is where a server kills itself: before or after a step. time is the number of that visit to the step, from 1.
type point struct {
	side, step string
	time       int
}

func (p point) String() string {
	if p.time == 1 {
		return p.side + " " + p.step
	}
	return fmt.Sprintf("%s %s (%d)", p.side, p.step, p.time)
}

// control is the directory with the step at which a server is to kill itself.
type control string

func (c control) write(t *testing.T, name, content string) {
	t.Helper()
	testutil.Must(t, os.WriteFile(filepath.Join(string(c), name), []byte(content), 0o600))
}

// arm begins a trace, and makes the server kill itself at p. With nil it does not.
func (c control) arm(t *testing.T, p *point) {
	t.Helper()
	c.write(t, "armed", "")
	c.write(t, "trace", "")
	if p != nil {
		c.write(t, "armed", fmt.Sprintf("%s %s\t%d", p.side, p.step, p.time))
	}
}

// trace returns the points that were reached since arm.
func (c control) trace(t *testing.T) (points []point) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(c), "trace"))
	testutil.Must(t, err)
	times := map[string]int{}
	for line := range strings.Lines(string(text)) {
		side, step, _ := strings.Cut(strings.TrimSpace(line), " ")
		if side == "killed" {
			continue
		}
		times[side+step]++
		points = append(points, point{side, step, times[side+step]})
	}
	return points
}

const (
	stepsDocument = "../../docs/reports/faults.md"
	stepsBegin    = "<!-- steps: written by make chaos UPDATE=1 -->\n"
	stepsEnd      = "<!-- /steps -->"
)

// stepTable is the table of steps, with the requests that reach each.
func stepTable(steps []string, walked map[string][]string) string {
	var table strings.Builder
	table.WriteString("| step | requests |\n|---|---|\n")
	for _, step := range steps {
		fmt.Fprintf(&table, "| %s | %s |\n", step, strings.Join(walked["before "+step], ", "))
	}
	return table.String()
}

// updateSteps writes the table into its document.
func updateSteps(t *testing.T, table string) {
	t.Helper()
	text, err := os.ReadFile(stepsDocument)
	testutil.Must(t, err)
	before, rest, found := strings.Cut(string(text), stepsBegin)
	_, after, ended := strings.Cut(rest, stepsEnd)
	testutil.Require(t, found && ended, "%s has no place for the table of steps", stepsDocument)
	testutil.Must(t, os.WriteFile(stepsDocument, []byte(before+stepsBegin+table+stepsEnd+after), 0o644))
}

// TestStepsAreInTheTable compares the table of steps with the sources, so that a test kills the server at each new
// step.
func TestStepsAreInTheTable(t *testing.T) {
	text, err := os.ReadFile(stepsDocument)
	testutil.Must(t, err)
	_, table, _ := strings.Cut(string(text), stepsBegin)
	table, _, _ = strings.Cut(table, stepsEnd)
	var documented []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 2 && strings.TrimSpace(cells[1]) != "" && !strings.HasPrefix(cells[0], "-") &&
			strings.TrimSpace(cells[0]) != "step" {
			documented = append(documented, strings.TrimSpace(cells[0]))
		}
	}
	steps := sourceSteps(t)
	testutil.Assert(t, slices.Equal(documented, steps),
		"the table of steps has %q, the sources have %q: make chaos UPDATE=1 writes the table", documented, steps)
}
