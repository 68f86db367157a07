package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

var helpOfFlag = regexp.MustCompile(`(?m)^ {3}(-.*?)(?: {2,}.*)?$`)

// TestRigFlagsOfRunc compares the flags with the help of the runc that is installed.
func TestRigFlagsOfRunc(t *testing.T) {
	rigenv.Require(t)
	compared := 0
	compare := func(where string, known map[string]bool, args ...string) {
		text, err := exec.Command("runc", append(args, "--help")...).CombinedOutput()
		testutil.Assert(t, err == nil, "runc %s --help: %v\n%s", where, err, text)
		_, options, _ := strings.Cut(string(text), "OPTIONS:\n")
		for _, line := range helpOfFlag.FindAllStringSubmatch(options, -1) {
			for _, flag := range strings.Split(line[1], ", ") {
				name, takesValue := strings.CutSuffix(strings.TrimLeft(flag, "-"), " value")
				compared++
				testutil.Assert(t, known[name] == takesValue,
					"runc %s %s takes a value: %v; this program assumes %v", where, flag, takesValue, known[name])
			}
		}
	}
	compare("", globalValued)
	for _, verb := range append(createVerbs, "exec", "checkpoint", "delete", "events", "kill", "list", "ps", "spec",
		"update") {
		compare(verb, valued[verb], verb)
	}
	testutil.Assert(t, compared >= 100, "%d flags were compared", compared)
}
