package yamldoc

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestOnly(t *testing.T) {
	for content, want := range map[string]string{
		"":                                "",
		"# a\n---\n# b\n":                 "",
		"a: 1\n":                          "a: 1\n",
		"# a\n---\n\na: 1\n---\n":         "\n\n\na: 1\n",
		"\ufeffa: 1\n":                    "a: 1\n",
		"a: |\n  ---\n   text\n":          "a: |\n  ---\n   text\n",
		"a: [1,\n2]\n...\n# b\n":          "a: [1,\n2]\n",
		"--- {a: 1}\n":                    "{a: 1}\n",
		"a: \"b\n":                        "a: \"b\n",
		"a: 1\na: 2\n":                    "a: 1\na: 2\n",
		"? a\n: - 1\n  - b: |-\n     c\n": "? a\n: - 1\n  - b: |-\n     c\n",
	} {
		got, err := Only([]byte(content))
		testutil.Assert(t, err == nil && string(got) == want, "%q: got %q, %v, want %q", content, got, err, want)
	}
	for content, want := range map[string]string{
		"a: 1\n---\nb: 2\n":           "line 2: another document begins",
		"a: 1\n...\n# b\n---\n\nb: 2": "line 4: another document begins",
		"{a: 1}\n{b: 2}\n":            "another document follows",
		"null\n# b\n{b: 2}\n":         "another document follows",
		"a: 1\n---\nb: \"\n":          "line 2: another document begins",
	} {
		_, err := Only([]byte(content))
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%q: got %v, want %q", content, err, want)
	}
}
