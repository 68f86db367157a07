package cni

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/criadapter/criadapter/internal/testutil"
)

// sandbox holds the directories of one test's Network.
type sandbox struct {
	t       *testing.T
	conf    string
	bin     string
	cache   string
	journal string // the directory to which the scripted plugins write
	options Options
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	root := t.TempDir()
	s := &sandbox{
		t:       t,
		conf:    filepath.Join(root, "conf", "net.d"),
		bin:     filepath.Join(root, "bin"),
		cache:   filepath.Join(root, "cache"),
		journal: filepath.Join(root, "journal"),
	}
	for _, dir := range []string{s.conf, s.bin, s.journal} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	s.options = optionsBelow(root)
	return s
}

// optionsBelow returns the Options of a Network whose directories are below root.
func optionsBelow(root string) Options {
	return Options{
		ConfDir:  filepath.Join(root, "conf", "net.d"),
		BinDirs:  []string{filepath.Join(root, "empty"), filepath.Join(root, "bin")},
		CacheDir: filepath.Join(root, "cache"),
	}
}

// network starts a Network that ends with the test.
func (s *sandbox) network() *Network {
	s.t.Helper()
	n, err := New(s.options)
	must(s.t, err)
	s.t.Cleanup(n.Close)
	return n
}

func (s *sandbox) configure(file, content string) {
	s.t.Helper()
	testutil.WriteFile(s.t, filepath.Join(s.conf, file), content)
}

// decodeResult reads a result's Raw.
func decodeResult(t testing.TB, result *Result) types100.Result {
	t.Helper()
	var raw types100.Result
	must(t, json.Unmarshal(result.Raw, &raw))
	return raw
}

const scriptedResult = `{"cniVersion":"1.0.0","interfaces":[{"name":"host0"},{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/x"}],` +
	`"ips":[{"address":"10.9.0.2/24","interface":1},{"address":"fd09::2/64","interface":1}],"dns":{"nameservers":["10.9.0.1"],"domain":"example"}}`

// plugin installs a scripted plugin. It records every call with its environment and input, and then runs the lines that
// the test set with script.
func (s *sandbox) plugin(name string) {
	s.t.Helper()
	testutil.WriteFile(s.t, filepath.Join(s.bin, name), fmt.Sprintf(`#!/bin/sh
dir=%s
me=%s.$CNI_COMMAND
cat > "$dir/$me.stdin"
printf %%s "$CNI_ARGS" > "$dir/$me.args"
echo "$me $CNI_CONTAINERID $CNI_IFNAME $CNI_NETNS" >> "$dir/calls"
if [ -f "$dir/$me.do" ]; then . "$dir/$me.do"; fi
if [ "$CNI_COMMAND" = ADD ]; then echo '%s'; fi
`, s.journal, name, scriptedResult))
	must(s.t, os.Chmod(filepath.Join(s.bin, name), 0o755))
}

// script makes a plugin's call ("fake.ADD") run shell lines.
func (s *sandbox) script(call, lines string) {
	s.t.Helper()
	testutil.WriteFile(s.t, filepath.Join(s.journal, call+".do"), lines+"\n")
}

// calls returns the calls of all plugins so far, "name.COMMAND" each.
func (s *sandbox) calls() string {
	s.t.Helper()
	var calls []string
	for _, line := range s.callLines() {
		calls = append(calls, strings.Fields(line)[0])
	}
	return strings.Join(calls, " ")
}

func (s *sandbox) callLines() []string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.journal, "calls"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' })
}

func (s *sandbox) forgetCalls() {
	s.t.Helper()
	must(s.t, os.RemoveAll(filepath.Join(s.journal, "calls")))
}

func (s *sandbox) recorded(name string) string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.journal, name))
	must(s.t, err)
	return string(content)
}

// cached lists the files below the cache directory.
func (s *sandbox) cached() []string {
	s.t.Helper()
	var files []string
	for _, dir := range []string{"results", "pending"} {
		entries, err := os.ReadDir(filepath.Join(s.cache, dir))
		if err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			files = append(files, dir+"/"+e.Name())
		}
	}
	return files
}

// wantRan checks which calls the plugins got, and that nothing is kept of a pod.
func (s *sandbox) wantRan(calls string) {
	s.t.Helper()
	testutil.Equal(s.t, s.calls(), calls, "ran")
	s.wantNothingKept()
}

func (s *sandbox) wantNothingKept() {
	s.t.Helper()
	testutil.Assert(s.t, len(s.cached()) == 0, "left %v", s.cached())
}

// join adds testPod to its network.
func join(t *testing.T, n *Network, id string) {
	t.Helper()
	_, err := n.Add(t.Context(), testPod(id))
	must(t, err)
}

func testPod(id string) Pod {
	return Pod{ID: id, Name: "web", Namespace: "shop", UID: "u-1", NetnsPath: "/proc/self/ns/net"}
}

// libcniOf is libcni with that cache directory.
func libcniOf(t *testing.T, cache string) *libcni.CNIConfig {
	t.Helper()
	return libcni.NewCNIConfigWithCacheDir(nil, cache, nil)
}
