package artifact

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/renameio/v2"
	"github.com/opencontainers/go-digest"
)

const (
	manifestFile = "manifest.json"
	namesFile    = "names.json"
	blobsDir     = "blobs"
)

// names are the names of an artifact, in the form of an engine's RepoTags and RepoDigests.
type names struct {
	Tags    []string
	Digests []string
}

// with returns the names together with more tags and digests.
func (n names) with(tags, digests []string) names {
	return names{Tags: union(n.Tags, tags), Digests: union(n.Digests, digests)}
}

// without returns all names but this tag.
func (n names) without(tag string) names {
	same := func(t string) bool { return t == tag }
	return names{Tags: slices.DeleteFunc(slices.Clone(n.Tags), same), Digests: n.Digests}
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// kept is an artifact in the store. It is immutable.
type kept struct {
	names
	dir     string
	id      digest.Digest
	files   []File
	size    int64
	created time.Time
}

// load reads the directory of an artifact. It verifies the manifest's digest.
func load(dir string) (*kept, error) {
	raw, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	id := digest.FromBytes(raw)
	if id.Encoded() != filepath.Base(dir) {
		return nil, fmt.Errorf("%s has the digest %s: %w", filepath.Join(dir, manifestFile), id, errdefs.ErrDataLoss)
	}
	a := &kept{dir: dir, id: id, size: int64(len(raw))}
	if a.files, err = ParseManifest(raw); err != nil {
		return nil, err
	}
	for _, file := range a.files {
		a.size += file.Size
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	a.created = info.ModTime()
	text, err := os.ReadFile(filepath.Join(dir, namesFile))
	if err != nil {
		return nil, err
	}
	return a, json.Unmarshal(text, &a.names)
}

// named replaces an artifact's names on the disk, and returns the artifact with the new names.
func (a *kept) named(names names) (*kept, error) {
	next := *a
	next.names = names
	return &next, writeNames(a.dir, names)
}

func writeNames(dir string, names names) error {
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, namesFile), text, 0o600, renameio.WithTempDir(dir))
}

func (a *kept) blob(file File) string { return filepath.Join(a.dir, blobsDir, file.Blob.Encoded()) }
