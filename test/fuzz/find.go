package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// target is a fuzz test: the directory of its package, and its name.
type target struct{ dir, name string }

func (t target) String() string { return "./" + t.dir + " " + t.name }

// logName is the name of the target's log.
func (t target) logName() string { return strings.ReplaceAll(t.dir, "/", "_") + "_" + t.name + ".log" }

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// find returns the fuzz tests below root in lexical order, of all packages or of the named packages.
func find(root string, packages []string) ([]target, error) {
	var wanted []string
	for _, name := range packages {
		if name != "./..." {
			wanted = append(wanted, filepath.ToSlash(filepath.Clean(name)))
		}
	}
	var targets []target
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && path != "." && (path == "build" || name == "testdata" || name[0] == '.'):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if len(wanted) > 0 && !slices.Contains(wanted, dir) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		for _, found := range declaration.FindAllSubmatch(text, -1) {
			targets = append(targets, target{dir: dir, name: string(found[1])})
		}
		return err
	})
	return targets, err
}
