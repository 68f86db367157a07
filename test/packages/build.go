package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/rig/cniplugins"
	"github.com/criadapter/criadapter/test/rig/images"
)

// The releases that are tried.
const (
	oldVersion, newVersion = "1.0.0", "1.0.1"
	// epoch is the time of both.
	epoch = "SOURCE_DATE_EPOCH=1700000000"
	// podImage is what the pods run.
	podImage = "criadapter.local/hello:1"
)

// build fills the directory that the machine sees: the releases, and what a node has beside them.
func (s *suite) build(ctx context.Context) error {
	share := filepath.Join(s.dir, "share")
	if err := os.MkdirAll(share, 0o755); err != nil {
		return err
	}
	if err := s.copySources(ctx); err != nil {
		return err
	}
	for _, version := range []string{oldVersion, newVersion} {
		if err := s.release(ctx, s.sources(), version, filepath.Join(share, version)); err != nil {
			return err
		}
	}
	if _, err := commandWith(ctx, "", []string{"CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(share, "runc"), "./test/rig/ociwrap"); err != nil {
		return err
	}
	plugins, err := cniplugins.Build(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(share, "plugins"), os.DirFS(plugins)); err != nil {
		return err
	}
	crictl, err := build.Crictl(ctx)
	if err != nil {
		return err
	}
	if err := copyFile(crictl, filepath.Join(share, "crictl")); err != nil {
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
	if err := copyFile(peer, filepath.Join(share, "cri-dockerd")); err != nil {
		return err
	}
	image, err := images.Hello(ctx)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(podImage)
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(filepath.Join(share, "hello.tar"), tag, image); err != nil {
		return err
	}
	return s.writeNode(share)
}

// writeNode writes the network and the pods of the node.
func (s *suite) writeNode(share string) error {
	conflist, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": "pods", "plugins": []any{
		map[string]any{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": map[string]any{
			"type": "host-local", "ranges": [][]map[string]string{{{"subnet": "10.88.0.0/24"}}}}},
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(share, "10-pods.conflist"), conflist, 0o644); err != nil {
		return err
	}
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  hostNetwork: %t
  containers:
    - {name: hello, image: %q, imagePullPolicy: Never}
`
	for name, hostNetwork := range map[string]bool{"web": false, "agent": true} {
		manifest := fmt.Sprintf(pod, name, hostNetwork, podImage)
		if err := os.WriteFile(filepath.Join(share, name+".yaml"), []byte(manifest), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// release runs the command that `make release` runs, of the sources in a directory.
func (s *suite) release(ctx context.Context, source, version, out string) error {
	_, err := commandWith(ctx, source, []string{epoch}, "go", "run", "./packaging/release", "-version", "v"+version, "-arch", architecture, "-out", out)
	return err
}

// sources is a copy of the tree, which edits of the tree do not change.
func (s *suite) sources() string { return filepath.Join(s.dir, "sources") }

// copySources copies the files that git tracks or would track.
func (s *suite) copySources(ctx context.Context) error {
	list, err := command(ctx, "", "git", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for path := range strings.SplitSeq(list, "\n") {
		if err := copyFile(path, filepath.Join(s.sources(), path)); err != nil && !os.IsNotExist(err) {
			return err // deleted files are listed until the deletion is committed
		}
	}
	return nil
}

// twoBuilds builds the release again, of a copy of the sources in another place, and compares the checksums.
func (s *suite) twoBuilds(ctx context.Context) error {
	copied := filepath.Join(s.dir, "another", "place")
	if err := os.CopyFS(copied, os.DirFS(s.sources())); err != nil {
		return err
	}
	out := filepath.Join(s.dir, "again")
	if err := s.release(ctx, copied, oldVersion, out); err != nil {
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
	_, err = command(ctx, out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	return err
}

// alerts has promtool read the alert rules and run their tests.
func (s *suite) alerts(ctx context.Context) error {
	dir, err := prometheus(ctx)
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "promtool")
	if _, err := command(ctx, "contrib/prometheus", program, "check", "rules", "alerts.yaml"); err != nil {
		return err
	}
	_, err = command(ctx, "contrib/prometheus", program, "test", "rules", "alerts_test.yaml")
	return err
}

// copyFile copies a file with its mode, and makes the directories that it needs.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	return target.Close()
}
