package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func toolsFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "tools", name, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestVersionIsTheRequiredOne(t *testing.T) {
	for _, tools := range []string{"kubernetes", "e2e"} {
		if want := kubernetes + " " + Version; !strings.Contains(toolsFile(t, tools), want) {
			t.Errorf("test/cluster/tools/%s/go.mod has no %q", tools, want)
		}
	}
}

// A staging module that is not replaced would be asked for as v0.0.0, and one replaced by another release would not fit.
func TestStagingModulesAreOfOneRelease(t *testing.T) {
	release := "v0" + strings.TrimPrefix(Version, "v1")
	replaced := 0
	for line := range strings.Lines(toolsFile(t, "kubernetes") + toolsFile(t, "e2e")) {
		if name, by, ok := strings.Cut(strings.TrimSpace(line), " => "); ok {
			replaced++
			if by != name+" "+release {
				t.Errorf("%s is replaced by %s, not by its release %s", name, by, release)
			}
		}
	}
	if replaced == 0 {
		t.Error("nothing is replaced")
	}
}

// `go mod tidy` keeps what the programs need only if they are named there.
func TestProgramsAreTools(t *testing.T) {
	for _, one := range append(programs(), specPrograms()...) {
		if one.isTest {
			continue // tools.go beside go.mod names its package
		}
		if want := "tool " + one.pkg; !strings.Contains(toolsFile(t, one.tools), want+"\n") && !strings.Contains(toolsFile(t, one.tools), "\t"+one.pkg+"\n") {
			t.Errorf("test/cluster/tools/%s/go.mod has no %q", one.tools, want)
		}
	}
}

func TestKeyFollowsTheModule(t *testing.T) {
	root := t.TempDir()
	one := programs()[1]
	dir := one.toolsDir(root)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, content := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		key, err := one.key(root)
		if err != nil {
			t.Fatal(err)
		}
		seen[key] = true
	}
	if len(seen) != 2 {
		t.Errorf("keys %v", seen)
	}
	if _, err := one.key(t.TempDir()); err == nil || !strings.Contains(err.Error(), "source tree") {
		t.Errorf("outside of the tree: %v", err)
	}
}

func TestStamps(t *testing.T) {
	got := stamps("v1.36.3")
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.36.3 ",
		"version.gitMajor=1 ", "version.gitMinor=36 ", "version.gitTreeState=clean ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

func TestEnvironRoundTrip(t *testing.T) {
	want := Programs{Etcd: "/a", APIServer: "/b", ControllerManager: "/c", Scheduler: "/d", Kubectl: "/e", Kubelet: "/f", KubeletCore: "/g"}
	pair, err := want.Environ()
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(pair, "=")
	got, err := FromEnviron(func(string) string { return value })
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, value := range map[string]string{
		"nothing": "", "no JSON": "{", "no kubelet": strings.Replace(value, `"/f"`, `""`, 1), "no kubelet-core": strings.Replace(value, `"/g"`, `""`, 1),
	} {
		if got, err := FromEnviron(func(string) string { return value }); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got, err := WithSpecsFromEnviron(func(string) string { return value }); err == nil || !strings.Contains(err.Error(), "ginkgo") {
		t.Errorf("without the specs' programs: %+v, %v", got, err)
	}
}
