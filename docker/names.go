package docker

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
)

// objectKind is a kind of object that a request names in its URL path.
type objectKind string

const (
	noObject   objectKind = ""
	aContainer objectKind = "container"
	anExec     objectKind = "exec"
	anImage    objectKind = "image"
)

// check refuses what cannot be the name of an object of this kind.
func (k objectKind) check(name string) error {
	switch k {
	case noObject:
		return nil
	case anImage:
		return checkImage(name)
	}
	return checkObject(string(k), name)
}

// checkObject refuses impossible ids and names of containers and execs before they become part of a URL path:
// "../images/x" would reach another kind of object. The object does not exist, hence ErrNotFound.
func checkObject(kind, id string) error {
	if id == "" || strings.Trim(id, ".") == "" || strings.ContainsFunc(id, notInName) {
		return fmt.Errorf("%w: no such %s: %q", errdefs.ErrNotFound, kind, id)
	}
	return nil
}

// notInName reports what neither ids nor names of containers contain.
func notInName(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	default:
		return r != '_' && r != '.' && r != '-'
	}
}

// checkImage refuses what is neither an image's id nor its name, with the
// engine's own grammar.
func checkImage(ref string) error {
	if _, err := reference.ParseAnyReference(ref); err != nil {
		return fmt.Errorf("%w: image %q: %w", errdefs.ErrInvalidArgument, ref, err)
	}
	return nil
}

// checkTag refuses what cannot become one more name of an image.
func checkTag(target string) error {
	name, err := reference.ParseNormalizedNamed(target)
	if err != nil {
		return fmt.Errorf("%w: image name %q: %w", errdefs.ErrInvalidArgument, target, err)
	}
	if _, digested := name.(reference.Digested); digested {
		return fmt.Errorf("%w: image name %q: a digest cannot be given to an image", errdefs.ErrInvalidArgument, target)
	}
	return nil
}
