package podspec

import (
	"cmp"
	"fmt"

	"github.com/containerd/errdefs"
)

// user is a container's user: a number, or a name that only the image can resolve.
type user struct {
	id   *int64
	name string
}

// effectiveUser returns the runAsUser of the container or the pod, or else the image's user. It checks runAsNonRoot.
func effectiveUser(in ContainerInput) (user, error) {
	pod, own := podSecurity(in.Pod), containerSecurity(in.Container)
	nonRoot := isTrue(cmp.Or(own.RunAsNonRoot, pod.RunAsNonRoot))
	if id := cmp.Or(own.RunAsUser, pod.RunAsUser); id != nil {
		if nonRoot && *id == 0 {
			return user{}, fmt.Errorf("runAsUser 0 breaks runAsNonRoot: %w", errdefs.ErrInvalidArgument)
		}
		return user{id: id}, nil
	}
	image := imageUser(in)
	switch {
	case !nonRoot:
		return image, nil
	case image.name != "":
		return user{}, fmt.Errorf(
			"container has runAsNonRoot and image has non-numeric user (%s): set runAsUser, because the user "+
				"may be root: %w",
			image.name, errdefs.ErrInvalidArgument)
	case *image.id == 0:
		return user{}, fmt.Errorf("container has runAsNonRoot and image will run as root: set runAsUser: %w",
			errdefs.ErrInvalidArgument)
	default:
		return image, nil
	}
}

// imageUser returns the image's user. An image without one runs as root.
func imageUser(in ContainerInput) user {
	switch {
	case in.Image.GetUid() != nil:
		return user{id: new(in.Image.GetUid().GetValue())}
	case in.Image.GetUsername() != "":
		return user{name: in.Image.GetUsername()}
	default:
		return user{id: new(int64)}
	}
}
