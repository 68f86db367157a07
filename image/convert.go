package image

import (
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/image"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fromInspect converts the engine's inspect of one image.
func fromInspect(inspect *image.InspectResponse) (*entry, error) {
	info, err := verboseInfo(inspect)
	if err != nil {
		return nil, err
	}
	img := &runtimeapi.Image{
		Id:          inspect.ID,
		RepoTags:    inspect.RepoTags,
		RepoDigests: inspect.RepoDigests,
		Size:        size(inspect.Size),
	}
	img.Uid, img.Username = defaultUser(inspect)
	e := newEntry(img)
	e.info, e.artifact = info, isArtifact(inspect)
	return e, nil
}

// isArtifact reports whether the content is an OCI artifact. Every image has an operating system, even an image without
// layers.
func isArtifact(inspect *image.InspectResponse) bool {
	return inspect.Os == "" && len(inspect.RootFS.Layers) == 0
}

// fromSummary converts a listed image that could not be inspected. The user and the info are from old, the image's
// earlier entry, which may be nil.
func fromSummary(summary image.Summary, old *entry) *entry {
	img := &runtimeapi.Image{
		Id:          summary.ID,
		RepoTags:    summary.RepoTags,
		RepoDigests: summary.RepoDigests,
		Size:        size(summary.Size),
	}
	if old == nil {
		old = &entry{}
	}
	img.Uid, img.Username = old.img.GetUid(), old.img.GetUsername()
	e := newEntry(img)
	e.info, e.failed, e.artifact = old.info, true, old.artifact
	return e
}

// size is the image's size in bytes. The CRI text demands a size above zero, which an image without files does not
// have.
func size(bytes int64) uint64 {
	return uint64(max(bytes, 1))
}

// defaultUser is the image's default user, see parseUser.
func defaultUser(inspect *image.InspectResponse) (*runtimeapi.Int64Value, string) {
	if inspect.Config == nil {
		return nil, ""
	}
	return parseUser(inspect.Config.User)
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
