package generate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"golang.org/x/tools/txtar"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestManifest compares the manifests of testdata. An archive has containers with their images, as `docker inspect`
// writes them, the options of their volumes and the version of cgroups, and then the manifest. Fields that do not
// matter are left out.
func TestManifest(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	testutil.Assert(t, err == nil && len(archives) > 0, "%v: %v", archives, err)
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			testutil.Must(t, err)
			var sources []source
			var want []byte
			for _, file := range archive.Files {
				if file.Name == "manifest.yaml" {
					want = file.Data
					continue
				}
				var s struct {
					Container     container.InspectResponse
					Image         image.InspectResponse
					Volumes       map[string]map[string]string
					CgroupVersion int
				}
				decoder := json.NewDecoder(bytes.NewReader(file.Data))
				decoder.DisallowUnknownFields()
				testutil.Must(t, decoder.Decode(&s))
				sources = append(sources, source{container: &s.Container, image: &s.Image, volumes: s.Volumes,
					cgroupVersion: s.CgroupVersion})
			}
			got, err := manifest("", sources)
			testutil.Must(t, err)
			if os.Getenv("UPDATE") != "" {
				archive.Files[len(archive.Files)-1].Data = got
				testutil.Must(t, os.WriteFile(path, txtar.Format(archive), 0o644))
			} else if string(got) != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]string{
		"/web": "web", "my_app.Web": "my-app-web", "-a-": "a", strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	} {
		testutil.Equal(t, validName(name), want, "the name of %s", name)
	}
}

// TestNamesOfContainers checks that different names of Docker stay different, and are not too long.
func TestNamesOfContainers(t *testing.T) {
	var sources []source
	long := strings.Repeat("a", 63)
	for _, name := range []string{"/a_b", "/a.b", "/a-b", "/" + long, "/" + long + "b"} {
		sources = append(sources, source{image: &image.InspectResponse{},
			container: &container.InspectResponse{Name: name, HostConfig: &container.HostConfig{},
				Config: &container.Config{}}})
	}
	text, err := manifest("pod", sources)
	testutil.Must(t, err)
	for _, name := range []string{"a-b", "a-b-2", "a-b-3", long, long[:61] + "-2"} {
		testutil.Assert(t, strings.Count(string(text), " name: "+name+"\n") == 1, "not one container %s in\n%s", name,
			text)
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"$(A)": "$$(A)", "kill $$": "kill $$$$", "$$(A)": "$$$$(A)", "$$$(A)": "$$$$$$(A)", "$A and $": "$A and $",
	} {
		testutil.Equal(t, escapeText(text), want, "%s", text)
	}
}
