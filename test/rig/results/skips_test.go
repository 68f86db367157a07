package results

import (
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const list = `# comment

docker TestA/one # needs a kernel that has it
sandbox  TestB  #  reason with # in it
`

func TestSkips(t *testing.T) {
	skips, err := ParseSkips(strings.NewReader(list))
	testutil.Must(t, err)
	tests := []Test{
		{Package: "docker", Name: "TestA/one", Outcome: Skip},
		{Package: "docker", Name: "TestA/two", Outcome: Skip},
		{Package: "sandbox", Name: "TestB", Outcome: Pass},
	}
	got := skips.Unlisted(tests)
	testutil.Assert(t, len(got) == 1 && got[0].Name == "TestA/two", "unlisted: %v", got)
	stale := skips.Stale(tests)
	testutil.Assert(t, slices.Equal(stale, []string{"sandbox TestB"}), "stale: %v", stale)
}

func TestParseSkipsRefuses(t *testing.T) {
	for name, list := range map[string]string{
		"no reason":    "docker TestA",
		"empty reason": "docker TestA # ",
		"no test":      "docker # reason",
		"twice":        "docker TestA # one\ndocker TestA # two",
	} {
		_, err := ParseSkips(strings.NewReader(list))
		testutil.Assert(t, err != nil, "%s: accepted", name)
	}
}

func FuzzParseSkips(f *testing.F) {
	f.Add(list)
	f.Add("a b # ")
	f.Fuzz(func(t *testing.T, list string) {
		skips, err := ParseSkips(strings.NewReader(list))
		if err != nil {
			return
		}
		for _, key := range skips.Stale(nil) {
			pkg, name, ok := strings.Cut(key, " ")
			testutil.Assert(t, ok && len(skips.Unlisted([]Test{{Package: pkg, Name: name, Outcome: Skip}})) <= 0,
				"the list does not allow the skip that its entry %q names", key)
		}
	})
}
