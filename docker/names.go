package docker

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
)

// checkObject refuses what cannot be the id or name of a container or an exec
// before it becomes part of a URL path, where "../images/x" would reach another
// kind of object. Such an object does not exist, hence ErrNotFound.
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
