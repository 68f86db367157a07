package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func toolsFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "tools", name, "go.mod"))
	testutil.Must(t, err)
	return string(text)
}

// versions returns the version of Kubernetes that each directory in test/cluster/tools requires.
func versions() map[string]string {
	all := map[string]string{"kubernetes": Version, "e2e": Version, "e2e-node": Version}
	for _, module := range kubeletModules() {
		all[module.tools()] = module.version
	}
	return all
}

func TestVersionIsTheRequiredOne(t *testing.T) {
	for tools, version := range versions() {
		want := kubernetes + " " + version
		testutil.Assert(t, strings.Contains(toolsFile(t, tools), want),
			"test/cluster/tools/%s/go.mod has no %q", tools, want)
	}
}

func TestVersionsThatProgramsAreStampedWith(t *testing.T) {
	for tools, want := range map[string]string{
		"cilium":   cilium + " v" + ciliumVersion + " ",
		"minikube": minikube + " " + minikubeVersion + " ",
	} {
		testutil.Assert(t, strings.Contains(toolsFile(t, tools), want), "%s: its go.mod has no %q", tools, want)
	}
}

// Go would look for version v0.0.0 of a staging module that is not replaced. A module of another release would not fit.
func TestStagingModulesAreOfOneRelease(t *testing.T) {
	for tools, version := range versions() {
		release := "v0" + strings.TrimPrefix(version, "v1")
		replaced := 0
		for line := range strings.Lines(toolsFile(t, tools)) {
			if name, by, ok := strings.Cut(strings.TrimSpace(line), " => "); ok {
				replaced++
				testutil.Assert(t, by == name+" "+release,
					"%s: %s is replaced by %s, not by its release %s", tools, name, by, release)
			}
		}
		testutil.Assert(t, replaced != 0, "%s: nothing is replaced", tools)
	}
}

// The version of a release's kubelet begins with the release. For a release other than Release, the kubelet alone is
// built from another module.
func TestKubeletsOfReleases(t *testing.T) {
	for _, release := range Releases() {
		version, err := KubeletVersion(release)
		testutil.Assert(t, err == nil && strings.HasPrefix(version, "v"+release+"."),
			"%s: version %s, %v", release, version, err)
		list, err := withKubelet(programs(), release)
		testutil.Must(t, err)
		for i, one := range programs() {
			other := list[i].tools != one.tools
			if wanted := one.name == kubelet && release != Release; other != wanted {
				t.Errorf("%s: %s is made in %s", release, one.name, list[i].tools)
			}
			if other &&
				(!strings.Contains(list[i].linkerFlags, "gitVersion="+version+" ") ||
					!strings.Contains(toolsFile(t, list[i].tools), "\ntool "+one.pkg+"\n")) {
				t.Errorf("%s: made as %+v", release, list[i])
			}
		}
	}
	if _, err := withKubelet(programs(), "1.1"); err == nil || !strings.Contains(err.Error(), "want one of 1.34, ") {
		t.Errorf("a release that is not there: %v", err)
	}
}

// `go mod tidy` keeps the requirements of a program only if go.mod names it as a tool.
func TestProgramsAreTools(t *testing.T) {
	for _, one := range (Extras{Certified: true, Calico: true, Cilium: true}).programs() {
		// A test program is named in tools.go. A program with a version is built with the go.mod of its own module.
		if one.isTest || one.version != "" {
			continue
		}
		if want := "tool " + one.pkg; !strings.Contains(toolsFile(t, one.tools), want+"\n") &&
			!strings.Contains(toolsFile(t, one.tools), "\t"+one.pkg+"\n") {
			t.Errorf("test/cluster/tools/%s/go.mod has no %q", one.tools, want)
		}
	}
}

func TestKeyFollowsTheModule(t *testing.T) {
	root := t.TempDir()
	one := programs()[1]
	dir := one.toolsDir(root)
	testutil.Must(t, os.MkdirAll(dir, 0o755))
	seen := make(map[string]bool)
	for _, content := range []string{"one", "two"} {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(content), 0o644))
		key, err := one.key(root)
		testutil.Must(t, err)
		seen[key] = true
	}
	testutil.Assert(t, len(seen) == 2, "keys %v", seen)
	_, err := one.key(t.TempDir())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "source tree"), "outside of the tree: %v", err)
}

func TestStamps(t *testing.T) {
	got := stamps("v1.36.3")
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.36.3 ",
		"version.gitMajor=1 ", "version.gitMinor=36 ", "version.gitTreeState=clean ",
	} {
		testutil.Assert(t, strings.Contains(got, want), "%q lacks %q", got, want)
	}
}

func TestEnvironRoundTrip(t *testing.T) {
	want := Programs{Etcd: "/a", APIServer: "/b", ControllerManager: "/c", Scheduler: "/d", Kubectl: "/e",
		Kubelet: "/f", KubeletCore: "/g"}
	pair, err := want.Environ()
	testutil.Must(t, err)
	_, value, _ := strings.Cut(pair, "=")
	got, err := FromEnviron(func(string) string { return value })
	testutil.Assert(t, err == nil && got == want, "got %+v, %v", got, err)
	for name, value := range map[string]string{
		"nothing": "", "no JSON": "{", "no kubelet": strings.Replace(value, `"/f"`, `""`, 1),
		"no kubelet-core": strings.Replace(value, `"/g"`, `""`, 1),
	} {
		got, err := FromEnviron(func(string) string { return value })
		testutil.Assert(t, err != nil, "%s: got %+v", name, got)
	}
	got, err = WithSpecsFromEnviron(func(string) string { return value })
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "ginkgo"), "without the specs' programs: %+v, %v",
		got, err)
}
