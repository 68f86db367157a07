// Command words checks for plain words in comments, messages, help texts and documents. It also checks the width of Go
// lines, and the messages of the commits that a change adds. CONTRIBUTING.md has the rules.
//
//	go run ./test/words             checks the tree and the commits since main
//	go run ./test/words ./sandbox   prints the findings of one folder
//	go run ./test/words -update     deletes from test/words/unclean.txt what is clean
//
// Findings that unclean.txt covers pass. Each of its lines has a folder, and width, words or both for the kinds of
// findings there. A clean entry fails the check, so the list can only shrink.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	update := flag.Bool("update", false, "delete what is clean from "+listName)
	base := flag.String("base", "", "the commit before the change; empty: where its branch left origin/main or main")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, options{root: ".", base: *base, update: *update, folders: flag.Args()}); err != nil {
		fmt.Fprintf(os.Stderr, "words: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	root, base string
	update     bool
	// folders limits the check to these folders, without the list. Empty means the whole tree and the commits.
	folders []string
}

func run(ctx context.Context, out io.Writer, o options) error {
	tree, err := checkTree(o.root)
	if err != nil {
		return err
	}
	if len(o.folders) > 0 {
		return show(out, tree, o.folders)
	}
	bad, err := checkList(out, o.root, tree, o.update)
	if err != nil {
		return err
	}
	commits, err := checkCommits(ctx, out, o.root, o.base)
	if err != nil {
		return err
	}
	if bad += commits; bad > 0 {
		return fmt.Errorf("%d findings", bad)
	}
	return nil
}

// show prints the findings of folders, whatever the list says.
func show(out io.Writer, tree map[string][]finding, folders []string) error {
	n := 0
	for _, folder := range folders {
		found, ok := tree[clean(folder)]
		if !ok {
			return fmt.Errorf("%s has neither Go files nor documents", folder)
		}
		for _, f := range found {
			fmt.Fprintln(out, f)
		}
		n += len(found)
	}
	if n > 0 {
		return fmt.Errorf("%d findings", n)
	}
	return nil
}
