package cni

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

const (
	listA   = `{"cniVersion":"1.0.0","name":"a","plugins":[{"type":"one"},{"type":"two"}]}`
	listB   = `{"cniVersion":"0.4.0","name":"b","plugins":[{"type":"one"}]}`
	singleC = `{"cniVersion":"0.3.1","name":"c","type":"one"}`
)

func TestFirstValidConfigurationWins(t *testing.T) {
	tests := []struct {
		name    string
		files   map[string]string
		file    string
		network string
		plugins string
		skipped string // files
	}{
		{"empty directory", nil, "", "", "", ""},
		{"lexical order", map[string]string{"20-a.conflist": listA, "10-b.conflist": listB}, "10-b.conflist", "b",
			"one", ""},
		{"digits sort as text", map[string]string{"9.conflist": listA, "10.conflist": listB}, "10.conflist", "b", "one",
			""},
		{"chained", map[string]string{"a.conflist": listA}, "a.conflist", "a", "one two", ""},
		{"conf", map[string]string{"c.conf": singleC}, "c.conf", "c", "one", ""},
		{"json", map[string]string{"c.json": singleC}, "c.json", "c", "one", ""},
		{"the extension does not rank", map[string]string{"1.json": singleC, "2.conflist": listA}, "1.json", "c", "one",
			""},
		{"other extensions",
			map[string]string{"1.conflist~": listB, "2.conf.bak": listB, "3.txt": listB, "README": "x",
				"9.conflist": listA}, "9.conflist", "a", "one two", ""},
		{"broken files are skipped",
			map[string]string{"1.conflist": "{", "2.conf": "", "3.conflist": listA, "4.json": "[]"}, "3.conflist", "a",
			"one two", "1.conflist 2.conf 4.json"},
		{"list without plugins", map[string]string{"1.conflist": `{"cniVersion":"1.0.0","name":"x","plugins":[]}`}, "",
			"", "", "1.conflist"},
		{"list without a plugins key", map[string]string{"1.conflist": `{"cniVersion":"1.0.0","name":"x"}`}, "", "", "",
			"1.conflist"},
		{"list without name", map[string]string{"1.conflist": `{"cniVersion":"1.0.0","plugins":[{"type":"one"}]}`}, "",
			"", "", "1.conflist"},
		{"single without name", map[string]string{"1.conf": `{"cniVersion":"1.0.0","type":"one"}`}, "", "", "",
			"1.conf"},
		{"single without type", map[string]string{"1.conf": `{"cniVersion":"1.0.0","name":"x"}`}, "", "", "", "1.conf"},
		{"list in a .conf", map[string]string{"1.conf": listA}, "", "", "", "1.conf"},
		{"null", map[string]string{"1.conf": "null", "2.conflist": "null", "3.json": "null"}, "", "", "",
			"1.conf 2.conflist 3.json"},
		{"name that leaves the directory",
			map[string]string{"1.conflist": `{"name":"../x","cniVersion":"1.0.0","plugins":[{"type":"one"}]}`}, "", "",
			"", "1.conflist"},
		{"plugin that leaves the directory",
			map[string]string{"1.conflist": `{"name":"x","cniVersion":"1.0.0","plugins":[{"type":"../sh"}]}`}, "", "",
			"", "1.conflist"},
		{"unknown version",
			map[string]string{"1.conflist": `{"name":"x","cniVersion":"9.0.0","plugins":[{"type":"one"}]}`}, "", "", "",
			"1.conflist"},
		{"no version is 0.1.0", map[string]string{"1.conf": `{"name":"x","type":"one"}`}, "1.conf", "x", "one", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range test.files {
				testutil.WriteFile(t, filepath.Join(dir, name), content)
			}
			snap := loadDir(dir)
			file, network, plugins := "", "", ""
			if snap.list != nil {
				file, network, plugins = filepath.Base(snap.file), snap.list.Name, pluginTypes(snap.list)
			}
			testutil.Assert(t, file == test.file && network == test.network && plugins == test.plugins,
				"got %q %q %q, want %q %q %q", file, network, plugins, test.file, test.network, test.plugins)
			var skipped []string
			for _, s := range snap.skipped {
				skipped = append(skipped, filepath.Base(s.File))
				testutil.Assert(t, s.Reason != "", "%s: no reason", s.File)
			}
			testutil.Equal(t, strings.Join(skipped, " "), test.skipped, "skipped")
			testutil.Assert(t, snap.err == nil, "%v", snap.err)
		})
	}
}

func pluginTypes(list *libcni.NetworkConfigList) string {
	var types []string
	for _, p := range list.Plugins {
		types = append(types, p.Network.Type)
	}
	return strings.Join(types, " ")
}

func TestAnotherNetworkStaysReachableByName(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "1.conflist"), listA)
	testutil.WriteFile(t, filepath.Join(dir, "2.conflist"), listB)
	testutil.WriteFile(t, filepath.Join(dir, "3.conflist"), strings.Replace(listB, "0.4.0", "1.0.0", 1))
	snap := loadDir(dir)
	testutil.Assert(t, snap.byName["a"] != nil && snap.byName["b"] != nil && snap.byName["b"].CNIVersion == "0.4.0",
		"got %+v", snap.byName)
}

// libcni keeps the text of a list for DEL.
func TestPluginsOfADirAreKeptForDel(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "1.conflist"), `{"cniVersion":"1.1.0","name":"a","disableCheck":true,"plugins":[{"type":"one"}]}`)
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	testutil.WriteFile(t, filepath.Join(dir, "a", "20.conf"), `{"type":"three"}`)
	testutil.WriteFile(t, filepath.Join(dir, "a", "10.conf"), `{"type":"two","key":"value"}`)
	snap := loadDir(dir)
	testutil.Require(t, snap.list != nil, "skipped: %v", snap.skipped)
	again, err := libcni.NetworkConfFromBytes(snap.list.Bytes)
	must(t, err)
	for _, list := range []*libcni.NetworkConfigList{snap.list, again} {
		got := pluginTypes(list)
		testutil.Assert(t, got == "one two three" && list.DisableCheck && list.CNIVersion == "1.1.0",
			"got %q, %+v", got, list)
	}
	testutil.WriteFile(t, filepath.Join(dir, "a", "30.conf"), `{`)
	snap = loadDir(dir)
	testutil.Assert(t, snap.list == nil && len(snap.skipped) == 1, "a broken plugin file: got %+v", snap)
}

func TestOddFilesNeverBlock(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "1.conflist"), 0o644))
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "2.conflist")))
	must(t, os.Symlink(dir, filepath.Join(dir, "3.conflist")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "4.conflist")))
	testutil.WriteFile(t, filepath.Join(dir, "5.conflist"), strings.Repeat(" ", maxConfSize)+listA)
	testutil.WriteFile(t, filepath.Join(dir, "6.conflist"), listB)
	must(t, os.Mkdir(filepath.Join(dir, "0.conflist"), 0o755))
	snap := loadDir(dir)
	testutil.Assert(t, snap.list != nil && snap.list.Name == "b" && len(snap.skipped) == 5, "got %+v", snap)
}

func TestDirThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testutil.WriteFile(t, file, "")
	snap := loadDir(file)
	testutil.Assert(t, snap.err != nil && snap.list == nil, "got %+v", snap)
	if snap := loadDir(filepath.Join(file + "-missing")); snap.err != nil {
		t.Errorf("a missing directory is an error: %v", snap.err)
	}
}

func FuzzLoadFile(f *testing.F) {
	for _, seed := range []string{listA, listB, singleC, "", "null", "{", `{"name":"x","plugins":[null]}`,
		`{"name":"x","cniVersions":["1.0.0","0.4.0"],"plugins":[{"type":"t","capabilities":{"dns":true}}]}`,
		`{"name":"x","cniVersion":"1.0.0","disableCheck":"true","plugins":[{"type":"t"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		for _, file := range []string{"x.conf", "x.conflist", "x.json"} {
			path := filepath.Join(dir, file)
			testutil.WriteFile(t, path, string(content))
			list, err := loadFile(path)
			if err != nil {
				continue
			}
			testutil.Assert(t, list.Name != "" && len(list.Plugins) != 0 && json.Valid(list.Bytes),
				"%s: took %+v", file, list)
			again, err := libcni.NetworkConfFromBytes(list.Bytes)
			testutil.Assert(t, err == nil && again.Name == list.Name && again.CNIVersion == list.CNIVersion &&
				pluginTypes(again) == pluginTypes(list), "%s: DEL would see %+v (%v) for %+v", file, again, err, list)
		}
	})
}
