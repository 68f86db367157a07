package image

import (
	"slices"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/image"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// entry is an image in the cache. It is immutable.
type entry struct {
	// img is the image without Pinned, see show.
	img *runtimeapi.Image
	// names are its tags and digests as normalName returns them.
	names []string
	// info is the info of a verbose status, nil if the engine has not inspected the image.
	info map[string]string
	// failed says that the engine could not inspect the image.
	failed bool
	// artifact says that the image is an OCI artifact, which cannot run as a container.
	artifact bool
}

func (e *entry) id() string { return e.img.GetId() }

// newEntry returns the entry of an image, without a user and an info.
func newEntry(img *runtimeapi.Image) *entry {
	e := &entry{img: img}
	for _, name := range slices.Concat(img.GetRepoTags(), img.GetRepoDigests()) {
		e.names = append(e.names, normalName(name))
	}
	return e
}

// sized returns the entry with another size in bytes.
func (e *entry) sized(bytes int64) *entry {
	if e.img.GetSize() == size(bytes) {
		return e
	}
	next := *e
	next.img = proto.CloneOf(e.img)
	next.img.Size = size(bytes)
	return &next
}

// unnamed returns the entry without the names in taken.
func (e *entry) unnamed(taken []string) *entry {
	lost := func(name string) bool { return slices.Contains(taken, normalName(name)) }
	if !slices.ContainsFunc(e.names, func(name string) bool { return slices.Contains(taken, name) }) {
		return e
	}
	img := proto.CloneOf(e.img)
	img.RepoTags = slices.DeleteFunc(img.RepoTags, lost)
	img.RepoDigests = slices.DeleteFunc(img.RepoDigests, lost)
	next := newEntry(img)
	next.info, next.failed, next.artifact = e.info, e.failed, e.artifact
	return next
}

// agrees reports whether the entry still agrees with the names in the engine's list. A list may lack some of an image's
// digests. An entry without an inspect never agrees.
func (e *entry) agrees(summary image.Summary) bool {
	for _, digested := range summary.RepoDigests {
		if !slices.Contains(e.img.GetRepoDigests(), digested) {
			return false
		}
	}
	tags := e.img.GetRepoTags()
	for _, tag := range summary.RepoTags {
		if !slices.Contains(tags, tag) {
			return false
		}
	}
	return len(tags) == len(summary.RepoTags) && !e.failed
}

// normalName returns an image's name in the form in which names are compared: with its registry, and with the tag
// "latest" if it has neither tag nor digest. It returns any other text as it is.
func normalName(name string) string {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return named.String()
}
