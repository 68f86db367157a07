package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/opencontainers/go-digest"
)

// kept is the directory of the signatures of pulled images: a file for each digest. Its content is not trusted: each
// signature is verified at each use.
type kept struct{ dir string }

func (k kept) path(image digest.Digest) string {
	return filepath.Join(k.dir, image.Algorithm().String()+"-"+image.Encoded()+".json")
}

// save replaces the signatures of an image.
func (k kept) save(image digest.Digest, found []evidence) error {
	text, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encode signatures of %s: %w", image, err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(k.path(image), text, 0o600)
}

// load returns the signatures of an image, none if there is no file. A file that is not JSON is an error.
func (k kept) load(image digest.Digest) ([]evidence, error) {
	text, err := os.ReadFile(k.path(image))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []evidence
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", k.path(image), err)
	}
	return found, nil
}

// settled is the age of kept signatures at which their pull has ended: it has failed, or the engine lists the image. A
// pull may end after its caller has left.
const settled = time.Hour

// sweep removes the settled signatures of all images but these.
func (k kept) sweep(images map[digest.Digest]bool) error {
	entries, err := os.ReadDir(k.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	needed := make(map[string]bool, len(images))
	for image := range images {
		needed[filepath.Base(k.path(image))] = true
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		// save writes a hidden file and then renames it.
		if needed[name] || strings.HasPrefix(name, ".") || filepath.Ext(name) != ".json" {
			continue
		}
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > settled {
			err = os.Remove(filepath.Join(k.dir, name))
		}
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
