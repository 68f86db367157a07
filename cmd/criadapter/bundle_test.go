package main

import (
	"compress/gzip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// untar returns the files of an archive by their names, without their common top directory.
func untar(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	testutil.Must(t, err)
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	testutil.Must(t, err)
	files := map[string]string{}
	for name, content := range testutil.Untar(t, zipped) {
		_, name, _ = strings.Cut(path.Clean(name), "/")
		files[name] = content
	}
	return files
}

// TestBundleHasNoSecrets plants secrets in the bundle's sources. None may be in the bundle.
func TestBundleHasNoSecrets(t *testing.T) {
	const planted = "hunter2hunter2"
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testutil.Must(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	write("net.d/10-net.conflist", `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"calico","mtu":1440,"policy":{"k8s_auth_token":"`+planted+`"},"etcd_endpoints":"https://root:`+planted+`@etcd:2379"}]}`)
	write("net.d/calico-kubeconfig", "users:\n- user:\n    token: "+planted+"\n")
	log := write("server.log",
		"msg=one\nproxy http://joe:"+planted+"@proxy:3128\nAuthorization: Bearer "+planted+"\nmsg=\"last line\"\n")
	socket := filepath.Join(dir, "cri.sock")
	flags := []string{
		"--container-runtime-endpoint=unix://" + socket, "--root-directory=" + dir + "/state",
		"--docker-endpoint=unix://" + dir + "/no-engine.sock",
		"--cni-conf-dir=" + dir + "/net.d", "--cni-bin-dir=" + dir,
		"--metrics-bind-addr=unix://" + dir + "/metrics.sock",
	}
	startProgram(t, socket, "exec $0 "+strings.Join(flags, " "), nil)

	file := filepath.Join(dir, "bug.tar.gz")
	args := append([]string{"debug", "bundle", "--file=" + file, "--log-file=" + log}, flags...)
	output, code := runCommand(t, args...)
	testutil.Require(t, code == 0 && strings.Contains(output, "written to "+file), "code %d: %s", code, output)
	info, err := os.Stat(file)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o600, "the archive is %v, %v", info, err)
	files := untar(t, file)
	for name, content := range files {
		testutil.Assert(t, !strings.Contains(content, planted), "%s has a secret: %s", name, content)
	}
	for name, want := range map[string]string{
		"version.txt": "criadapter unknown", "settings.json": `"origin": "flag --root-directory"`,
		"check.txt":   "to fix (fail)",
		"status.json": `"pid": `, "pods.json": "not collected: ", "metrics.txt": "criadapter_cache_fresh 0",
		"log.txt":             "last line",
		"cni/10-net.conflist": `"mtu": 1440`, "cni/calico-kubeconfig": "REDACTED", "node/version.txt": "Linux",
	} {
		testutil.Assert(t, strings.Contains(files[name], want), "%s has no %q: %s", name, want, files[name])
	}
	if output, code := runCommand(t, args...); code != 1 || !strings.Contains(output, "file exists") {
		t.Errorf("over another archive: code %d: %s", code, output)
	}
}
