package images

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The images of Kubernetes' specs have the tools that the specs run, and the files and settings that they check.
func TestSpecs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agnhost")
	testutil.Must(t, os.WriteFile(program, []byte("a program"), 0o755))
	images, err := Specs(t.Context(), t.TempDir(), program)
	testutil.Must(t, err)
	for name, files := range map[string][]string{
		"agnhost:2.63.0": {"agnhost", "agnhost-2", "localhost.crt", "localhost.key", "bin/nc", "uploads",
			"var/registry/pause/manifests/testing"},
		"agnhost:2.55":                          {"agnhost", "bin/nc", "image-name"},
		"nautilus:1.8":                          {"agnhost", "data.json"},
		"busybox:1.37.0-1":                      {"usr/local/bin/sh"},
		"nonewprivs:1.4":                        {"usr/local/bin/nnp"},
		"../sig-storage/hostpathplugin:v1.17.1": {"hostpathplugin"},
		"kitten:1.8":                            {"data.json", "etc/os-release"},
		"nginx:1.15-4":                          {"usr/sbin/nginx"},
		"../pause:3.10.2":                       {"pause"},
		"glibc-dns-testing:2.0.0":               {"image-name"},
		"ipc-utils:1.4":                         {"image-name"},
		"nonroot:1.5":                           {"image-name"},
	} {
		image := images[filepath.Clean(SpecsPrefix+name)]
		if image == nil {
			t.Errorf("no image %s", name)
			continue
		}
		_, headers := unpack(t, topLayer(t, image))
		for _, file := range files {
			testutil.Assert(t, headers[file] != nil, "%s has no %s", name, file)
		}
		if name == "nonewprivs:1.4" && headers["usr/local/bin/nnp"].Mode != 0o4755 {
			t.Errorf("nnp has mode %o", headers["usr/local/bin/nnp"].Mode)
		}
	}
	layers, err := images[SpecsPrefix+"busybox:1.37.0-1"].Layers()
	testutil.Must(t, err)
	_, headers := unpack(t, layers[1])
	testutil.Assert(t, headers["bin/nmeter"] != nil, "no nmeter")
	for _, tool := range SpecTools() {
		testutil.Assert(t, headers["bin/"+tool.Program] != nil, "no tool %s", tool.Program)
	}
	config, err := images[SpecsPrefix+"nonroot:1.5"].ConfigFile()
	testutil.Assert(t, err == nil && config.Config.User == "1234", "nonroot is of user %q, %v", config.Config.User, err)
}
