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
	aVolume    objectKind = "volume"
)

// check returns an error if objects of this kind cannot have the name.
func (k objectKind) check(name string) error {
	switch k {
	case noObject:
		return nil
	case anImage:
		return checkImage(name)
	}
	return checkObject(string(k), name)
}

// checkObject rejects invalid ids and names of containers and execs before they become part of a URL path:
// "../images/x" would reach an image. The error is ErrNotFound, since such an object cannot exist.
func checkObject(kind, id string) error {
	if id == "" || strings.Trim(id, ".") == "" || strings.ContainsFunc(id, notInName) {
		return fmt.Errorf("%w: no such %s: %q", errdefs.ErrNotFound, kind, id)
	}
	return nil
}

// notInName reports whether ids and names of containers cannot contain r.
func notInName(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	default:
		return r != '_' && r != '.' && r != '-'
	}
}

// checkImage rejects a ref that is neither an image id nor an image name. The grammar is the engine's.
func checkImage(ref string) error {
	if _, err := reference.ParseAnyReference(ref); err != nil {
		return fmt.Errorf("%w: image %q: %w", errdefs.ErrInvalidArgument, ref, err)
	}
	return nil
}

// checkTag rejects a target that the engine cannot add to an image as a name, such as one with a digest.
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
