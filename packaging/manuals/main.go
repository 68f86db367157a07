// Command manuals writes the man pages and the completion scripts of criadapter and kubelet-core, from their command
// lines:
//
//	go run ./packaging/manuals -to build/share -version v1.0.0 -date 2026-01-31
//
// It writes man/man1, bash-completion/completions, zsh/site-functions and fish/vendor_completions.d. The directories
// have the same names below /usr/share. It is a separate program, so that the generator of man pages is not a part of
// the programs.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	criadapter "github.com/criadapter/criadapter/cmd/criadapter/command"
	kubeletcore "github.com/criadapter/criadapter/cmd/kubelet-core/command"
)

func main() {
	to := flag.String("to", "build/share", "the `directory` to write to")
	version := flag.String("version", "unknown", "the `version` in the pages")
	date := flag.String("date", "", "the `day` in the pages, so that two runs write the same (default: today)")
	flag.Parse()
	if err := generate(*to, *version, *date); err != nil {
		fmt.Fprintf(os.Stderr, "manuals: %v\n", err)
		os.Exit(1)
	}
}

// generate writes everything. The same arguments write the same bytes.
func generate(to, version, date string) error {
	day := time.Now()
	if date != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, date); err != nil {
			return fmt.Errorf("-date: %w", err)
		}
	}
	for _, root := range []*cobra.Command{
		criadapter.Root(criadapter.Options{Version: version}), kubeletcore.Root(version),
	} {
		root.DisableAutoGenTag = true
		root.InitDefaultCompletionCmd()
		header := &doc.GenManHeader{Section: "1", Date: &day, Source: root.Name() + " " + version, Manual: root.Name()}
		if err := writeAll(root, to, header); err != nil {
			return err
		}
	}
	return nil
}

func writeAll(root *cobra.Command, to string, header *doc.GenManHeader) error {
	man := filepath.Join(to, "man", "man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	if err := doc.GenManTree(root, header, man); err != nil {
		return fmt.Errorf("man pages: %w", err)
	}
	for path, write := range map[string]func(string) error{
		"bash-completion/completions/" + root.Name(): func(file string) error {
			return root.GenBashCompletionFileV2(file, true)
		},
		"zsh/site-functions/_" + root.Name(): root.GenZshCompletionFile,
		"fish/vendor_completions.d/" + root.Name() + ".fish": func(file string) error {
			return root.GenFishCompletionFile(file, true)
		},
	} {
		file := filepath.Join(to, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := write(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
