package image

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/image"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// idOf returns a full id that begins with these digits.
func idOf(digits string) string { return idAlgorithm + digits + strings.Repeat("0", 64-len(digits)) }

// entryOf returns an image with this id and these tags, and with a digest in its first tag's repository.
func entryOf(digits string, tags ...string) *entry {
	img := &runtimeapi.Image{Id: idOf(digits), RepoTags: tags}
	if len(tags) > 0 {
		repository, _, _ := strings.Cut(tags[0], ":")
		img.RepoDigests = []string{repository + "@" + idOf("d"+digits)}
	}
	return newEntry(img)
}

func TestLookup(t *testing.T) {
	s := newSnapshot([]*entry{
		entryOf("cafe1", "busybox:1.36", "busybox:latest"), entryOf("cafe2", "r.example/app:1"), entryOf("abcd"),
		entryOf("beef", "abcd:latest"),
	}, true)
	for ref, want := range map[string]string{
		"busybox":                          "cafe1",
		"busybox:1.36":                     "cafe1",
		"docker.io/library/busybox:latest": "cafe1",
		"busybox:1.37":                     "",
		"busybox@" + idOf("dcafe1"):        "cafe1",
		"docker.io/library/busybox@" + idOf("dcafe1"): "cafe1",
		"other@" + idOf("dcafe1"):                     "",
		idOf("dcafe1"):                                "", // a digest is not an id
		"r.example/app:1":                             "cafe2",
		"r.example/app":                               "",
		idOf("cafe2"):                                 "cafe2",
		strings.TrimPrefix(idOf("cafe2"), "sha256:"):  "cafe2",
		"cafe2":        "cafe2",
		"sha256:cafe2": "cafe2",
		"cafe":         "", // a prefix of two ids
		"bee":          "", // too short
		"beef":         "beef",
		"abcd":         "beef", // a name takes precedence over a prefix
		"abcd0":        "abcd",
		"ffff":         "",
		"Not A Name":   "",
	} {
		got := s.lookup(ref)
		switch {
		case want == "" && got != nil:
			t.Errorf("%q is %s", ref, got.id())
		case want != "" && (got == nil || got.id() != idOf(want)):
			t.Errorf("%q is %v, want %s", ref, got, want)
		}
	}
}

// A name belongs to the image that received it last.
func TestNameMovesToTheNewestImage(t *testing.T) {
	before := newSnapshot([]*entry{entryOf("1", "app:1", "app:2"), entryOf("2", "other:1")}, true)
	after, changed := before.with(entryOf("3", "app:2"))
	if slices.Sort(changed); !slices.Equal(changed, []string{idOf("1"), idOf("3")}) {
		t.Errorf("changed: %v", changed)
	}
	old := after.ofID(idOf("1"))
	testutil.Assert(t, slices.Equal(old.img.GetRepoTags(), []string{"app:1"}) && len(old.img.GetRepoDigests()) == 1,
		"the old image is %v", old.img)
	got := after.lookup("app:2")
	testutil.Assert(t, got.id() == idOf("3"), "the name belongs to %s", got.id())
	if got := before.lookup("app:2"); got.id() != idOf("1") || len(got.img.GetRepoTags()) != 2 {
		t.Errorf("the earlier snapshot has changed: %v", got.img)
	}
	if gone := after.without(idOf("3")); gone.lookup("app:2") != nil || len(gone.byID) != 2 || len(after.byID) != 3 {
		t.Errorf("without the newest there are %d images", len(gone.byID))
	}
}

func TestAgrees(t *testing.T) {
	e := entryOf("1", "app:1", "app:2")
	digest := e.img.GetRepoDigests()
	for what, tt := range map[string]struct {
		tags, digests []string
		want          bool
	}{
		"the same":         {[]string{"app:2", "app:1"}, digest, true},
		"without a digest": {[]string{"app:1", "app:2"}, nil, true},
		"a new digest":     {[]string{"app:1", "app:2"}, append(digest, "b@"+idOf("1")), false},
		"a lost tag":       {[]string{"app:1"}, digest, false},
		"a new tag":        {[]string{"app:1", "app:2", "app:3"}, digest, false},
		"another tag":      {[]string{"app:1", "app:3"}, digest, false},
	} {
		testutil.Equal(t, e.agrees(image.Summary{RepoTags: tt.tags, RepoDigests: tt.digests}), tt.want, "%s", what)
	}
	failed := *e
	failed.failed = true
	testutil.Assert(t, !failed.agrees(image.Summary{RepoTags: []string{"app:1", "app:2"}}),
		"an image that could not be inspected is not inspected again")
}
