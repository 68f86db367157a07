package inventory

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Differs names additional and missing entries. Without leaves out the entries of others.
func TestDiffers(t *testing.T) {
	before := Inventory{"mount": {"/a", "/b"}, "pin": {"x"}}
	testutil.Equal(t, before.Differs(Inventory{"mount": {"/c", "/d"}, "pin": {"y"}}), "",
		"differences with as many of each kind")
	after := Inventory{"mount": {"/a", "/b", "/c"}, "process": {"sh"}}
	text := after.Differs(before)
	for _, want := range []string{"mount: 3, should be 2:\n  + /c\n", "pin: 0, should be 1:\n  - x\n",
		"process: 1, should be 0:\n  + sh\n"} {
		testutil.Assert(t, strings.Contains(text, want), "%q is not in %q", want, text)
	}
	rest := after.Without(func(kind, name string) bool { return kind == "process" || name == "/c" })
	testutil.Equal(t, rest.Differs(Inventory{"mount": {"/a", "/b"}}), "", "differences without the entries of others")
}

func TestFilesThatStay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lock", "machine-id", "last_reserved_ip.0", "10.88.0.2"} {
		testutil.WriteFile(t, filepath.Join(dir, name), "")
	}
	i := Inventory{}
	testutil.Must(t, i.addFiles("leased address", dir))
	testutil.Must(t, i.addFiles("leased address", filepath.Join(dir, "nothing")))
	err := i.addFiles("leased address", filepath.Join(dir, "lock", "x"))
	testutil.Assert(t, err != nil, "a directory that cannot be read is taken for an empty one")
	got := i["leased address"]
	testutil.Assert(t, len(got) == 1 && filepath.Base(got[0]) == "10.88.0.2", "counted %v", got)
}
