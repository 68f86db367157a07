package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Document is a Markdown file of the tree.
type Document struct {
	// Path is relative to the root.
	Path, Content string
	Blocks        []Block
}

// Documents reads the Markdown files below root, without build and testdata. The error names the first invalid block of
// each document.
func Documents(root string) ([]Document, error) {
	var found []Document
	var unread []error
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "build" && filepath.Dir(path) == filepath.Clean(root) ||
			entry.Name() == ".git" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".md") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		blocks, err := Read(string(content))
		if err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", relative, err))
		}
		found = append(found, Document{Path: relative, Content: string(content), Blocks: blocks})
		return nil
	})
	return found, errors.Join(append(unread, err)...)
}
