package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/docs/fence"
)

// documents runs what the documents say is run on a machine, from the beginning: nothing is installed. A document's blocks are
// one shell, in a directory with a release and a manifest.
func (s *suite) documents(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		printf '#!/bin/sh\nexec "$@"\n' > /usr/local/bin/sudo
		chmod 755 /usr/local/bin/sudo
		cp /mnt/crictl /usr/local/bin
		rm -f /etc/crictl.yaml
		mkdir -p /root/release
		cp /mnt/`+newVersion+`/criadapter_`+newVersion+`_`+architecture+`.deb /mnt/`+newVersion+`/SHA256SUMS /mnt/web.yaml /root/release`); err != nil {
		return err
	}
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		return err
	}
	const first = "docs/quick-start.md" // installs
	names = append([]string{first}, slices.DeleteFunc(names, func(name string) bool { return name == first })...)
	ran := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		blocks, err := fence.Read(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var lines strings.Builder
		for _, block := range blocks {
			if block.Kind == fence.Machine {
				lines.WriteString(strings.ReplaceAll(block.Text, "_amd64.deb", "_"+architecture+".deb"))
				ran++
			}
		}
		if lines.Len() == 0 {
			continue
		}
		if _, err := s.machine.Run(ctx, "sh", "-c", "cd /root/release && exec bash -euxc \"$0\"", lines.String()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if ran < 4 {
		return fmt.Errorf("only %d blocks were run", ran)
	}
	fmt.Printf("     %d blocks of commands of the documents ran\n", ran)
	return nil
}
