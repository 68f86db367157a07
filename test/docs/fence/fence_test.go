package fence

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	got, err := Read("# Title\n\n```sh machine\ncriadapter\n\n    x\n```\ntext\n```output\nfine\n```\n- a list\n    goes on\n")
	want := []Block{{Machine, 3, "criadapter\n\n    x\n"}, {Output, 9, "fine\n"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for document, complaint := range map[string]string{
		"```bash\nx\n```\n": `line 1: a block of the kind "bash"`,
		"```\nx\n```\n":     "which is none",
		"```sh\nx\n":        "no end",
		"a\n\n    make\n":   "line 3: an indented block",
	} {
		if _, err := Read(document); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%q: %v, want %q", document, err, complaint)
		}
	}
}
