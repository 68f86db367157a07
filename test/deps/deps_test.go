package deps

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// root is the path from this package to the root of the module.
const root = "../.."

// everyPackage is the pattern of all packages, in the root of the module. With a pattern of import paths, the go
// command would read the go.mod files of every module of the graph, which no build needs.
const everyPackage = "./..."

// TestImports compares every package of the module with the import table and the bans.
func TestImports(t *testing.T) {
	packages := list(t)
	testutil.Require(t, len(packages) >= 10, "go list found only %d packages", len(packages))
	for _, pkg := range packages {
		t.Run(relative(pkg.ImportPath), func(t *testing.T) {
			for _, wrong := range Check(pkg, Rules(), Bans()) {
				t.Error(wrong)
			}
		})
	}
}

func list(t *testing.T) []Package {
	t.Helper()
	// With -e, go list does not fail for packages that do not compile. Other tests report those.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-buildvcs=false",
		"-json=ImportPath,Doc,Imports,Deps,TestImports,XTestImports", everyPackage)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	testutil.Require(t, err == nil, "go list: %v", err)
	var packages []Package
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg Package
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, pkg)
	}
}

func TestTableGivesReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range Rules() {
		testutil.Assert(t, rule.Why != "", "%s: no reason", rule.Path)
		testutil.Assert(t, !seen[rule.Path], "%s: listed twice", rule.Path)
		seen[rule.Path] = true
	}
	for _, rule := range Rules() {
		for _, may := range rule.May {
			if may != anything && !seen[may] {
				t.Errorf("%s may import %s, which the table does not have", rule.Path, may)
			}
		}
	}
	for _, ban := range Bans() {
		testutil.Assert(t, ban.Why != "", "ban of %s: no reason", ban.Import)
	}
}

func TestTableHasNoCycle(t *testing.T) {
	may := map[string][]string{}
	for _, rule := range Rules() {
		may[rule.Path] = rule.May
	}
	var visit func(pkg string, path []string)
	visit = func(pkg string, path []string) {
		for i, earlier := range path {
			if earlier == pkg {
				t.Fatalf("packages may import each other in a cycle: %s", strings.Join(append(path[i:], pkg), " -> "))
			}
		}
		for _, next := range may[pkg] {
			if next != anything {
				visit(next, append(path, pkg))
			}
		}
	}
	for pkg := range may {
		visit(pkg, nil)
	}
}

func TestCheck(t *testing.T) {
	const client = "github.com/moby/moby/client"
	tests := []struct {
		name string
		pkg  Package
		want string // part of the only complaint; empty for none
	}{
		{"allowed", Package{ImportPath: "sandbox", Imports: []string{"context", Module + "/state"}}, ""},
		{"not in the table", Package{ImportPath: "sandbox", Imports: []string{Module + "/image"}},
			"must not import image"},
		{"unknown package", Package{ImportPath: "attic"}, "not in the import table"},
		{"unknown package below a known one", Package{ImportPath: "docker/attic"}, "not in the import table"},
		{"no package comment", Package{ImportPath: "internal/pause", Doc: " "}, "no package comment"},
		{"client in docker", Package{ImportPath: "docker", Imports: []string{client}}, ""},
		{"client elsewhere", Package{ImportPath: "image", Imports: []string{client}}, "docker.Engine"},
		{"client in a fake", Package{ImportPath: "docker/dockertest", Imports: []string{client}}, "docker.Engine"},
		{"API types elsewhere", Package{ImportPath: "docker/translate",
			Imports: []string{"github.com/moby/moby/api/types"}}, ""},
		{"client in a test program", Package{ImportPath: "test/rig/engine", Imports: []string{client}}, ""},
		{"client in a package's test", Package{ImportPath: "image", TestImports: []string{client}}, ""},
		{"kubernetes in a test", Package{ImportPath: "server", TestImports: []string{"k8s.io/kubernetes/pkg/kubelet"}},
			"not a library"},
		{"kubernetes by way of others", Package{ImportPath: "server", Deps: []string{"k8s.io/kubernetes/pkg/kubelet"}},
			"not a library"},
		{"a name that only begins alike", Package{ImportPath: "server", Deps: []string{"k8s.io/kubernetes-csi"}}, ""},
		{"kubelet in the server's program", Package{ImportPath: "cmd/criadapter",
			Imports: []string{Module + "/kubelet"}}, "grow a kubelet"},
		{"server in the kubelet", Package{ImportPath: "kubelet", Imports: []string{Module + "/state"}},
			"must not import state"},
		{"test code in the program", Package{ImportPath: "cmd/criadapter",
			Imports: []string{Module + "/test/rig/rigenv"}}, "must not ship"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.pkg.ImportPath = Module + "/" + test.pkg.ImportPath
			if test.pkg.Doc == "" {
				test.pkg.Doc = "Package x is documented."
			}
			got := Check(test.pkg, Rules(), Bans())
			switch {
			case test.want == "" && len(got) > 0:
				t.Errorf("complaints: %q", got)
			case test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)):
				t.Errorf("complaints %q, want one with %q", got, test.want)
			}
		})
	}
}
