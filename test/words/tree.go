package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The kinds of findings.
const (
	words = "words"
	wide  = "width"
)

// finding is something to change.
type finding struct {
	path string // below the root of the tree, with slashes
	line int
	kind string
	says string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.says) }

// clean returns a folder in the form of the list: "." or "kubelet/status".
func clean(folder string) string { return path.Clean(filepath.ToSlash(folder)) }

// checkTree returns the findings of each folder, sorted. A clean folder has an empty slice.
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

// listName is the list of what is not yet clean.
const listName = "test/words/unclean.txt"

// checkList prints the findings that the list does not cover, and the entries of the list that are clean. With update
// it deletes these entries instead. It returns how many lines it printed.
func checkList(out io.Writer, root string, tree map[string][]finding, update bool) (int, error) {
	file := filepath.Join(root, listName)
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		folder, kinds, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, kind := range strings.Fields(kinds) {
			listed[folder+" "+kind] = true
		}
	}
	bad, unclean := 0, map[string]bool{}
	for _, folder := range sorted(tree) {
		for _, f := range tree[folder] {
			line := folder + " " + f.kind
			unclean[line] = true
			if !listed[line] {
				fmt.Fprintln(out, f)
				bad++
			}
		}
	}
	left := map[string]string{}
	for _, line := range sorted(listed) {
		folder, kind, _ := strings.Cut(line, " ")
		if unclean[line] {
			left[folder] += " " + kind
		} else if !update {
			fmt.Fprintf(out, "%s: %q is clean: delete it\n", listName, line)
			bad++
		}
	}
	if !update {
		return bad, nil
	}
	var text strings.Builder
	for _, folder := range sorted(left) {
		text.WriteString(folder + left[folder] + "\n")
	}
	return bad, os.WriteFile(file, []byte(text.String()), 0o644)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
