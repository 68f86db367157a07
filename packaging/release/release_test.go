package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/cmd/kubelet-core/configfile"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

var commitTime = time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)

func TestPackageVersion(t *testing.T) {
	for name, want := range map[string]string{
		"v1.2.3":                    "1.2.3",
		"1.2.3":                     "1.2.3",
		"v1.2.3-rc.1":               "1.2.3-rc.1",
		"v1.2.3-5-g2b8bbe5":         "1.2.3+5.g2b8bbe5",
		"v1.2.3-rc1-5-g2b8bbe5":     "1.2.3-rc1+5.g2b8bbe5",
		"v1.2.3-dirty":              "1.2.3+dirty",
		"v1.2.3-5-g2b8bbe5-dirty":   "1.2.3+5.g2b8bbe5.dirty",
		"2b8bbe5":                   "0.0.0-alpha20260304050607+g2b8bbe5",
		"2b8bbe5-dirty":             "0.0.0-alpha20260304050607+g2b8bbe5.dirty",
		"unknown":                   "",
		"v1.2":                      "",
		"v1.2.3; rm -rf /":          "",
		"v1.2.3-something-else-odd": "",
	} {
		got, err := packageVersion(name, commitTime)
		testutil.Assert(t, got == want && (err == nil) == (want != ""), "%s: %q, %v, want %q", name, got, err, want)
	}
}

func TestVersionFor(t *testing.T) {
	for format, want := range map[string]string{"deb": "1.2.3+5.g2b8bbe5", "rpm": "1.2.3+5.g2b8bbe5", "apk": "1.2.3"} {
		testutil.Equal(t, versionFor(format, "1.2.3+5.g2b8bbe5"), want, "%s", format)
	}
}

// TestProgramsHaveAVersion checks that each program declares the variable that the linker sets. For a missing variable
// the linker reports no error.
func TestProgramsHaveAVersion(t *testing.T) {
	for _, program := range programs() {
		source := testutil.ReadFile(t, filepath.Join("../../cmd", program, "main.go"))
		testutil.Assert(t, strings.Contains(source, "\nvar version = \"unknown\"\n"),
			"cmd/%s/main.go declares no version", program)
	}
}

// TestLayout lays out the files of the packages. Text files stand for the programs.
func TestLayout(t *testing.T) {
	b := build{architecture: "amd64", dir: t.TempDir()}
	for _, program := range programs() {
		testutil.Must(t, os.WriteFile(b.path(program), []byte(program), 0o700))
	}
	r := release{source: "../..", time: commitTime}
	files, err := r.layout(b, nil)
	testutil.Must(t, err)
	stage := t.TempDir()
	testutil.Must(t, stageFiles(stage, files, commitTime))
	for path, mode := range map[string]fs.FileMode{
		"usr/bin/criadapter": 0o755, "usr/bin": 0o755, "etc/criadapter/config.yaml": 0o644,
		"cri-docker/usr/bin/cri-dockerd":                       0o755,
		"etc/init.d/criadapter":                                0o755,
		"usr/lib/systemd/system/criadapter.socket":             0o644,
		"usr/share/doc/criadapter/" + termsFile:                0o644,
		"kubelet-core/usr/share/doc/kubelet-core/" + termsFile: 0o644,
	} {
		info, err := os.Stat(filepath.Join(stage, path))
		testutil.Assert(t, err == nil && info.Mode().Perm() == mode && info.ModTime().Equal(commitTime),
			"%s: %v, %v", path, info, err)
	}
	config := testutil.ReadFile(t, "../criadapter/nfpm.yaml")
	for _, f := range links() {
		want := "{src: " + f.link + ", dst: /" + f.path + ", type: symlink}"
		testutil.Assert(t, strings.Contains(config, want), "nfpm.yaml lacks the link %s", want)
	}
	_, err = r.layout(b, []file{{path: "usr/bin/criadapter"}})
	testutil.Assert(t, err != nil, "two files with the same name are laid out")
}

func TestTarHasDirectoriesOnceAndOneTime(t *testing.T) {
	var packed bytes.Buffer
	files := []file{
		{path: "a/b", mode: 0o644, content: []byte("x")}, {path: "a/c", mode: 0o755}, {path: "a/d", link: "c"},
	}
	testutil.Must(t, writeTar(&packed, "top", files, commitTime))
	var names []string
	for reader := tar.NewReader(&packed); ; {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		testutil.Must(t, err)
		testutil.Assert(t, header.ModTime.Equal(commitTime) && header.Uid == 0 && header.Uname == "",
			"%s depends on this machine or time: %v", header.Name, header)
		if name := header.Name; header.Typeflag == tar.TypeSymlink {
			names = append(names, name+">"+header.Linkname)
		} else {
			names = append(names, name)
		}
	}
	testutil.Equal(t, strings.Join(names, " "), "top/ top/a/ top/a/b top/a/c top/a/d>c", "names in the tarball")
}

// TestSBOMAndImage makes an SBOM and images twice, in two directories. The modules come from the test program itself.
// The programs in the images are short, because compressing real ones takes most of a minute.
func TestSBOMAndImage(t *testing.T) {
	self, err := os.Executable()
	testutil.Must(t, err)
	linked, b := build{dir: t.TempDir()}, build{architecture: "amd64", dir: t.TempDir()}
	for _, program := range programs() {
		testutil.Must(t, os.Symlink(self, linked.path(program)))
		testutil.WriteFile(t, b.path(program), program)
	}
	modules, err := linked.modules()
	testutil.Require(t, err == nil && len(modules) >= 3, "%d modules, %v", len(modules), err)
	var sums []string
	for range 2 {
		r := release{name: "v1.2.3", version: "1.2.3", time: commitTime, out: t.TempDir()}
		for _, err := range []error{r.sbom(b, modules), r.images([]build{b}), r.checksums()} {
			testutil.Must(t, err)
		}
		sums = append(sums, testutil.ReadFile(t, filepath.Join(r.out, checksumsFile)))
		text := testutil.ReadFile(t, filepath.Join(r.out, "criadapter_1.2.3_linux_amd64.spdx.json"))
		var d document
		if err := json.Unmarshal([]byte(text), &d); err != nil || len(d.Packages) != len(modules)+len(programs()) ||
			len(d.Relationships) < len(d.Packages) {
			t.Errorf("%d packages and %d relationships of %d modules, %v", len(d.Packages), len(d.Relationships),
				len(modules), err)
		}
	}
	for _, c := range containers() {
		image, err := release{time: commitTime}.imageOf(c, b)
		testutil.Must(t, err)
		content := mutate.Extract(image)
		reader := tar.NewReader(content)
		header, err := reader.Next()
		testutil.Assert(t, err == nil && header.Name == termsFile,
			"the image of %s begins with %v, %v", c.name, header, err)
		testutil.Must(t, content.Close())
	}
	testutil.Assert(t, sums[0] == sums[1] && strings.Count(sums[0], "\n") == 5,
		"two releases of the same programs differ:\n%s%s", sums[0], sums[1])
}

// TestPackageScripts checks the syntax of every script with sh -n.
func TestPackageScripts(t *testing.T) {
	scripts := 0
	for _, dir := range []string{"../criadapter", "../cri-docker", "../kubelet-core"} {
		entries, err := os.ReadDir(dir)
		testutil.Must(t, err)
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if !strings.HasPrefix(testutil.ReadFile(t, path), "#!") {
				continue
			}
			scripts++
			out, err := exec.Command("sh", "-n", path).CombinedOutput()
			testutil.Assert(t, err == nil, "%s: %v\n%s", path, err, out)
		}
	}
	testutil.Assert(t, scripts >= 16, "only %d scripts were read", scripts)
}

// TestUnitsRunTheSame: cri-docker.service has the [Service] section of criadapter.service, except for the program's
// name.
func TestUnitsRunTheSame(t *testing.T) {
	section := func(path string) string {
		text := testutil.ReadFile(t, path)
		_, rest, found := strings.Cut(text, "[Service]")
		service, _, ended := strings.Cut(rest, "[Install]")
		testutil.Require(t, found && ended && strings.Contains(service, "ExecStart=/usr/bin/cri"),
			"%s has no service:\n%s", path, text)
		return service
	}
	own, dropIn := section("../../contrib/systemd/criadapter.service"), section("../cri-docker/cri-docker.service")
	testutil.Assert(t, strings.ReplaceAll(own, "/usr/bin/criadapter ", "/usr/bin/cri-dockerd ") == dropIn,
		"cri-docker.service has another [Service] section than criadapter.service:\n%s\n%s", dropIn, own)
}

// TestUnitsStandAlike: criadapter.service and cri-docker.service have the same dependencies and the same ordering.
func TestUnitsStandAlike(t *testing.T) {
	read := func(path string) string {
		unit, _, found := strings.Cut(testutil.ReadFile(t, path), "[Service]")
		testutil.Require(t, found, "%s has no service", path)
		return unit
	}
	differences := unitDifferences(read("../../contrib/systemd/criadapter.service"),
		read("../cri-docker/cri-docker.service"))
	testutil.Assert(t, len(differences) == 0, "%q", differences)
}

// unitDifferences names the lines that only one of the units criadapter.service and cri-docker.service has. Each unit
// may have its own comments and description, and requires its own socket. Only cri-docker.service may have the line
// Conflicts=criadapter.service: with it, systemd stops each service when the other one starts.
func unitDifferences(criadapter, criDocker string) (differences []string) {
	lines := func(unit string) []string {
		return slices.DeleteFunc(strings.Split(unit, "\n"), func(line string) bool {
			return line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "Description=") ||
				line == "Conflicts=criadapter.service"
		})
	}
	own, dropIn := lines(strings.ReplaceAll(criadapter, "criadapter.socket", "cri-docker.socket")), lines(criDocker)
	for _, line := range own {
		if !slices.Contains(dropIn, line) {
			differences = append(differences, "cri-docker.service lacks "+line)
		}
	}
	for _, line := range dropIn {
		if !slices.Contains(own, line) {
			differences = append(differences, "only cri-docker.service has "+line)
		}
	}
	return differences
}

func TestUnitDifferences(t *testing.T) {
	const own = "[Unit]\nDescription=own\n# Why.\nAfter=docker.service\nAfter=criadapter.socket\n"
	for _, tt := range []struct{ dropIn, want string }{
		{"# Why not.\n[Unit]\nDescription=other\nAfter=docker.service\nAfter=cri-docker.socket\n" +
			"Conflicts=criadapter.service\n", ""},
		{"[Unit]\nAfter=docker.service\nAfter=cri-docker.socket\nAfter=late.service\n",
			"only cri-docker.service has After=late.service"},
		{"[Unit]\nAfter=docker.service\n", "cri-docker.service lacks After=cri-docker.socket"},
	} {
		got := strings.Join(unitDifferences(own, tt.dropIn), "; ")
		testutil.Equal(t, got, tt.want, "differences of\n%s", tt.dropIn)
	}
}

// TestUpgradesRestartBothNames: the scripts of an upgrade restart both criadapter.service and cri-docker.service.
func TestUpgradesRestartBothNames(t *testing.T) {
	for _, script := range []string{"postinst.deb", "postun.rpm"} {
		text := testutil.ReadFile(t, "../criadapter/"+script)
		for _, unit := range []string{"criadapter", "cri-docker"} {
			testutil.Assert(t, regexp.MustCompile(`(?m)restart .*\b`+unit+`\.service`).MatchString(text),
				"%s does not restart %s.service:\n%s", script, unit, text)
		}
	}
}

// TestConfigurationShowsTheDefaults: the installed configuration is valid and equals the defaults, with and without its
// comment signs.
func TestConfigurationShowsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../criadapter/config.yaml")
	testutil.Must(t, err)
	keys := regexp.MustCompile(`(?m)^#([a-z][a-z-]+: )`)
	testutil.Assert(t, len(keys.FindAll(text, -1)) >= 8, "too few keys in\n%s", text)
	for _, content := range [][]byte{text, keys.ReplaceAll(text, []byte("$1"))} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		testutil.Must(t, os.WriteFile(path, content, 0o600))
		cfg, flags := config.Default(), pflag.NewFlagSet("criadapter", pflag.ContinueOnError)
		cfg.AddFlags(flags)
		testutil.Must(t, flags.Parse([]string{"--config", path}))
		_, err := cfg.Load(flags)
		testutil.Must(t, err)
		testutil.Assert(t, cfg == config.Default() && cfg.Validate() == nil, "%+v is not the default, or not valid: %v",
			cfg, cfg.Validate())
	}
}

// TestConfigurationOfTheKubeletCore: kubelet-core accepts the installed configuration, with and without its comment
// signs.
func TestConfigurationOfTheKubeletCore(t *testing.T) {
	text, err := os.ReadFile("../kubelet-core/config.yaml")
	testutil.Must(t, err)
	settings, err := configfile.Parse(text)
	testutil.Assert(t, err == nil && len(settings) == 0, "the installed file sets %v, %v", settings, err)
	keys := regexp.MustCompile(`(?m)^#([a-z][A-Za-z]+: )`)
	settings, err = configfile.Parse(keys.ReplaceAll(text, []byte("$1")))
	testutil.Assert(t, err == nil && len(settings) >= 8, "without comment signs it sets %v, %v", settings, err)
}
