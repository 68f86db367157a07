package inventory

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Differs names additional and missing entries. Without leaves out the entries of others.
func TestDiffers(t *testing.T) {
	before := Inventory{"mount": {"/a", "/b"}, "pin": {"x"}}
	after := Inventory{"mount": {"/a", "/b", "/c"}, "process": {"sh"}}
	text := after.Differs(before)
	for _, want := range []string{"mount: 3, should be 2:\n  + /c\n", "pin: 0, should be 1:\n  - x\n",
		"process: 1, should be 0:\n  + sh\n"} {
		testutil.Assert(t, strings.Contains(text, want), "%q is not in %q", want, text)
	}
	rest := after.Without(func(kind, name string) bool { return kind == "process" || name == "/c" })
	testutil.Equal(t, rest.Differs(Inventory{"mount": {"/a", "/b"}}), "", "differences without the entries of others")
}

// A leaked entry and a missing entry of one kind differ, unless their names differ only in ids and numbers.
func TestDiffersByShape(t *testing.T) {
	const idA, idB = "0a1b2c3d4e5f", "ffeeddccbbaa"
	for name, test := range map[string]struct {
		wanted, have []string
		differs      string
	}{
		"the same entries in another order": {[]string{"/b", "/a"}, []string{"/a", "/b"}, ""},
		"another pod's entries": {
			[]string{"/pods/" + idA + "/shm", "vethdeadbeef", "-A CNI-DN-" + idA + " -s 10.88.0.9/32"},
			[]string{"-A CNI-DN-" + idB + " -s 10.88.0.17/32", "/pods/" + idB + "/shm", "veth01234567"}, ""},
		"a later attempt":      {[]string{"k8s_main_web_0 running"}, []string{"k8s_main_web_12 running"}, ""},
		"leaked and missing":   {[]string{"br0", "lo"}, []string{"lo", "tap1"}, "\n  + tap1\n  - br0"},
		"another state":        {[]string{"x running"}, []string{"x exited"}, "\n  + x exited\n  - x running"},
		"the same name twice":  {[]string{"sh"}, []string{"sh", "sh"}, "\n  + sh"},
		"one more of two pods": {[]string{"/" + idA}, []string{"/" + idA, "/" + idB}, "\n  + /" + idB},
	} {
		want := ""
		if test.differs != "" {
			want = fmt.Sprintf("kind: %d, should be %d:%s\n", len(test.have), len(test.wanted), test.differs)
		}
		testutil.Equal(t, Inventory{"kind": test.have}.Differs(Inventory{"kind": test.wanted}), want, "%s", name)
	}
}

// Processes of the server and of tests are not counted. Processes of the OCI runtime are counted, as they belong to
// pods.
func TestServers(t *testing.T) {
	for comm, want := range map[string]bool{
		"criadapter": true, "criadapter-keep": true, "dockerd": true, "containerd": true, "chaos.test": true,
		"soak": true, "kubelet": true,
		"criadapter-oci": false, "containerd-shim": false, "runc": false, "runc:[2:INIT]": false, "sh": false,
	} {
		testutil.Equal(t, servers.MatchString(comm), want, "%s is left out", comm)
	}
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
