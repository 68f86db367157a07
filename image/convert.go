package image

import (
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/image"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fromSummary converts an element of the engine's list.
func (s *Service) fromSummary(summary image.Summary, user string) *runtimeapi.Image {
	img := &runtimeapi.Image{
		Id:          summary.ID,
		RepoTags:    summary.RepoTags,
		RepoDigests: summary.RepoDigests,
		Size:        size(summary.Size),
	}
	return s.finish(img, user)
}

// fromInspect converts the engine's inspect of one image.
func (s *Service) fromInspect(inspect *image.InspectResponse) *runtimeapi.Image {
	img := &runtimeapi.Image{
		Id:          inspect.ID,
		RepoTags:    inspect.RepoTags,
		RepoDigests: inspect.RepoDigests,
		Size:        size(inspect.Size),
	}
	return s.finish(img, defaultUser(inspect))
}

func (s *Service) finish(img *runtimeapi.Image, user string) *runtimeapi.Image {
	img.Uid, img.Username = parseUser(user)
	img.Pinned = s.sandbox.is(img)
	return img
}

// size is the image's size in bytes. The CRI text demands a size above zero, which an image without files does not
// have.
func size(bytes int64) uint64 {
	return uint64(max(bytes, 1))
}

// defaultUser is the "user[:group]" of the image's configuration.
func defaultUser(inspect *image.InspectResponse) string {
	if inspect.Config == nil {
		return ""
	}
	return inspect.Config.User
}

// parseUser splits an image's "user[:group]" into a numeric uid or a name. It returns neither for an image without a
// user, which the kubelet treats as root.
func parseUser(user string) (*runtimeapi.Int64Value, string) {
	name, _, _ := strings.Cut(user, ":")
	if name == "" {
		return nil, ""
	}
	if uid, err := strconv.ParseInt(name, 10, 64); err == nil && uid >= 0 {
		return &runtimeapi.Int64Value{Value: uid}, ""
	}
	return nil, name
}
