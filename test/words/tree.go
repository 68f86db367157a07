package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// finding is something to change.
type finding struct {
	path string // below the root of the tree, with slashes
	line int
	says string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.says) }

// checkTree returns the findings by folder ("." or "kubelet/status"), in the order of files and lines. A clean folder
// has an empty slice.
func checkTree(root string) (map[string][]finding, error) {
	tree, patterns := map[string][]finding{}, patterns()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped.MatchString(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") && !isDocument(name):
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		var found []finding
		if isDocument(name) {
			found = checkMarkdown(content, patterns)
		} else if found, err = checkGo(name, content, patterns); err != nil {
			return err
		}
		slices.SortStableFunc(found, func(a, b finding) int { return a.line - b.line })
		folder := path.Dir(name)
		tree[folder] = append(tree[folder], found...)
		for i := range tree[folder] {
			if tree[folder][i].path == "" {
				tree[folder][i].path = name
			}
		}
		return nil
	})
	return tree, err
}

// skipped matches folders that are not checked: data of tests, results and hidden folders.
var skipped = regexp.MustCompile(`^build$|(^|/)(testdata$|\.[^/])`)

// isDocument says whether a file is a page for readers. The change log is left out, because it keeps the words of past
// releases.
func isDocument(name string) bool {
	ours := path.Dir(name) == "." || strings.HasPrefix(name, "docs/")
	return ours && path.Ext(name) == ".md" && name != "CHANGELOG.md"
}
