package fence

import (
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRead(t *testing.T) {
	got, err := Read("# Title\n\n```sh machine\ncriadapter\n\n    x\n```\ntext\n```output\nfine\n```\n- a list\n" +
		"    goes on\n```yaml file: a/b.yaml\na: 1\n```\n")
	want := []Block{{Machine, "", 3, "criadapter\n\n    x\n"}, {Output, "", 9, "fine\n"},
		{YAMLFile, "a/b.yaml", 14, "a: 1\n"}}
	testutil.Assert(t, err == nil && slices.Equal(got, want), "%+v, %v, want %+v", got, err, want)
	for document, complaint := range map[string]string{
		"```bash\nx\n```\n":          `line 1: a block of the unknown kind "bash"`,
		"```\nx\n```\n":              "unknown kind",
		"```sh\nx\n```\n":            "no suite",
		"```sh elsewhere\nx\n```\n":  "note",
		"```sh tree: why\nx\n```\n":  "note",
		"```sh machine\nx\n":         "no end",
		"a\n\n    make\n":            "line 3: an indented block",
		"```json file\n{}\n```\n":    "note",
		"```output: a.txt\nx\n```\n": "note",
	} {
		if _, err := Read(document); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%q: %v, want %q", document, err, complaint)
		}
	}
}
