// Command words checks for plain words in comments, messages, help texts and documents. It also checks the width of Go
// lines, and the messages of the commits that a change adds. CONTRIBUTING.md has the rules.
//
//	go run ./test/words             checks the tree and the commits since main
//	go run ./test/words ./sandbox   prints the findings of one folder
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	base := flag.String("base", "", "the commit before the change; empty: where its branch left origin/main or main")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, options{root: ".", base: *base, folders: flag.Args()}); err != nil {
		fmt.Fprintf(os.Stderr, "words: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	root, base string
	// folders limits the check to these folders. Empty means the whole tree and the commits.
	folders []string
}

func run(ctx context.Context, out io.Writer, o options) error {
	tree, err := checkTree(o.root)
	if err != nil {
		return err
	}
	folders := o.folders
	if len(folders) == 0 {
		folders = slices.Sorted(maps.Keys(tree))
	}
	bad, err := show(out, tree, folders)
	if err != nil {
		return err
	}
	if len(o.folders) == 0 {
		commits, err := checkCommits(ctx, out, o.root, o.base)
		if err != nil {
			return err
		}
		bad += commits
	}
	if bad > 0 {
		return fmt.Errorf("%d findings", bad)
	}
	return nil
}

// show prints the findings of folders, and returns how many there are.
func show(out io.Writer, tree map[string][]finding, folders []string) (int, error) {
	n := 0
	for _, folder := range folders {
		found, ok := tree[path.Clean(filepath.ToSlash(folder))]
		if !ok {
			return n, fmt.Errorf("%s has neither Go files nor documents", folder)
		}
		for _, f := range found {
			fmt.Fprintln(out, f)
		}
		n += len(found)
	}
	return n, nil
}
