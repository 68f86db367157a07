package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/program"
)

// The tested releases.
const (
	oldVersion, newVersion = "1.0.0", "1.0.1"
)

// build fills the directory that the machine sees: the releases, and the other programs of a node.
func (s *suite) build(ctx context.Context) error {
	share := filepath.Join(s.dir, "share")
	if err := os.MkdirAll(share, 0o755); err != nil {
		return err
	}
	if err := s.copySources(ctx); err != nil {
		return err
	}
	for _, version := range []string{oldVersion, newVersion} {
		if err := debian.Release(ctx, s.sources(), version, architecture, filepath.Join(share, version)); err != nil {
			return err
		}
	}
	earlier, err := earlierRelease(ctx)
	if err == nil && earlier != "" {
		err = os.CopyFS(filepath.Join(share, earlierVersion), os.DirFS(filepath.Join(earlier, "release")))
	}
	if err != nil {
		return err
	}
	if err := debian.RuntimeWrapper(ctx, share); err != nil {
		return err
	}
	if err := debian.FillShare(ctx, share, architecture); err != nil {
		return err
	}
	programs, err := prometheus(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(share, os.DirFS(programs)); err != nil {
		return err
	}
	boot, err := openrc(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(share, "openrc"), os.DirFS(filepath.Join(boot, "all"))); err != nil {
		return err
	}
	peer, err := peers.CRIDockerd(ctx)
	if err != nil {
		return err
	}
	return program.CopyFile(peer, filepath.Join(share, "cri-dockerd"))
}

// sources is a copy of the tree, so that edits during the run have no effect.
func (s *suite) sources() string { return filepath.Join(s.dir, "sources") }

// copySources copies the files that git tracks or would track.
func (s *suite) copySources(ctx context.Context) error {
	list, err := program.Output(ctx, "", nil, "git", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for path := range strings.SplitSeq(list, "\n") {
		if err := program.CopyFile(path, filepath.Join(s.sources(), path)); err != nil && !os.IsNotExist(err) {
			return err // git lists a deleted file until the deletion is committed
		}
	}
	return nil
}

// twoBuilds builds the release again from a copy of the sources in another directory, and compares the checksums.
func (s *suite) twoBuilds(ctx context.Context) error {
	copied := filepath.Join(s.dir, "another", "place")
	if err := os.CopyFS(copied, os.DirFS(s.sources())); err != nil {
		return err
	}
	out := filepath.Join(s.dir, "again")
	if err := debian.Release(ctx, copied, oldVersion, architecture, out); err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(s.dir, "share", oldVersion, "SHA256SUMS"))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		return err
	}
	if string(first) != string(second) || len(first) == 0 {
		return fmt.Errorf("two builds of the same sources differ:\n%s\n%s", first, second)
	}
	_, err = program.Output(ctx, out, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	return err
}

// alerts has promtool read the alert rules and run their tests.
func (s *suite) alerts(ctx context.Context) error {
	dir, err := prometheus(ctx)
	if err != nil {
		return err
	}
	promtool := filepath.Join(dir, "promtool")
	if _, err := program.Output(ctx, "contrib/prometheus", nil, promtool, "check", "rules", "alerts.yaml"); err != nil {
		return err
	}
	_, err = program.Output(ctx, "contrib/prometheus", nil, promtool, "test", "rules", "alerts_test.yaml")
	return err
}
