package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/image/registry"
	"github.com/criadapter/criadapter/internal/wholedir"
)

// maxManifest bounds a manifest, in bytes, as registries do.
const maxManifest = 4 << 20

// pull is a transfer of an artifact into the store.
type pull struct {
	ref  reference.Named
	auth authn.AuthConfig
	// arch is the node's architecture. It decides which manifest of an index is pulled.
	arch string
	// progress is called whenever bytes of a blob arrive.
	progress func()
}

// pull transfers an artifact and names it. It fails with ErrNotArtifact for an image.
func (s *Store) pull(ctx context.Context, p pull) error {
	found, err := s.resolve(ctx, p)
	if err != nil {
		return err
	}
	making, err := wholedir.Make(s.root)
	if err != nil {
		return err
	}
	defer os.RemoveAll(making) // add moves the directory away
	if err := s.fetch(ctx, p, found, making); err != nil {
		return err
	}
	return s.add(making, found.id, namesFor(p.ref, found.named))
}

// namesFor returns the names that an artifact gets from a pull of ref. named is the digest of its manifest or index.
func namesFor(ref reference.Named, named v1.Hash) names {
	given := names{Digests: []string{reference.FamiliarName(ref) + "@" + named.String()}}
	if _, tagged := ref.(reference.Tagged); tagged {
		given.Tags = []string{reference.FamiliarString(ref)}
	}
	return given
}

// resolved is an artifact in a registry.
type resolved struct {
	// named is the digest that the registry has for the name: the digest of the manifest, or of the index that lists
	// it.
	named    v1.Hash
	id       digest.Digest
	manifest []byte
	files    []File
}

// resolve reads the manifest of an artifact.
func (s *Store) resolve(ctx context.Context, p pull) (resolved, error) {
	from, err := registry.Open(ctx, p.ref, registry.Options{Auth: p.auth, Certs: s.certs, MaxAnswer: maxManifest})
	if err != nil {
		return resolved{}, err
	}
	descriptor, err := remote.Get(referenceIn(from.Name, p.ref), from.Remote...)
	if err != nil {
		return resolved{}, err
	}
	found := resolved{named: descriptor.Digest}
	if descriptor.MediaType.IsIndex() {
		if descriptor, err = choose(from, descriptor, p.arch); err != nil {
			return resolved{}, err
		}
	}
	found.id, found.manifest = digest.FromBytes(descriptor.Manifest), descriptor.Manifest
	found.files, err = ParseManifest(descriptor.Manifest)
	return found, err
}

func referenceIn(repository name.Repository, ref reference.Named) name.Reference {
	if digested, ok := ref.(reference.Digested); ok {
		return repository.Digest(digested.Digest().String())
	}
	return repository.Tag(ref.(reference.Tagged).Tag())
}

// choose finds the manifest for the node's architecture in an index, and reads it.
func choose(from registry.Repository, of *remote.Descriptor, arch string) (*remote.Descriptor, error) {
	index, err := of.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, descriptor := range manifest.Manifests {
		if p := descriptor.Platform; p != nil && p.OS == "linux" && p.Architecture == arch {
			return remote.Get(from.Name.Digest(descriptor.Digest.String()), from.Remote...)
		}
	}
	return nil, fmt.Errorf("the index has no manifest for linux/%s: %w", arch, errdefs.ErrNotFound)
}

// fetch writes the manifest and the blobs of an artifact to a directory.
func (s *Store) fetch(ctx context.Context, p pull, found resolved, making string) error {
	from, err := registry.Open(ctx, p.ref, registry.Options{Auth: p.auth, Certs: s.certs})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(making, manifestFile), found.manifest, 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(making, blobsDir), 0o700); err != nil {
		return err
	}
	done := map[digest.Digest]bool{}
	for _, file := range found.files {
		if done[file.Blob] {
			continue
		}
		done[file.Blob] = true
		if err := fetchBlob(from, file, filepath.Join(making, blobsDir), p.progress); err != nil {
			return fmt.Errorf("blob %s: %w", file.Blob, err)
		}
	}
	return nil
}

// fetchBlob writes a blob to a directory. The library verifies its digest.
func fetchBlob(from registry.Repository, file File, dir string, progress func()) (err error) {
	layer, err := remote.Layer(from.Name.Digest(file.Blob.String()), from.Remote...)
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	bounded := &counted{r: io.LimitReader(content, file.Size+1), progress: progress}
	if err := Write(dir, File{Path: file.Blob.Encoded()}, bounded); err != nil {
		return err
	}
	if bounded.n != file.Size {
		return fmt.Errorf("its size is not the %d bytes in the manifest: %w", file.Size, errdefs.ErrDataLoss)
	}
	return nil
}

// counted is a reader that reports its progress.
type counted struct {
	r        io.Reader
	n        int64
	progress func()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if n > 0 {
		c.progress()
	}
	return n, err
}
