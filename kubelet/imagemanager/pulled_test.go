package imagemanager

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestOthersImagesStay: only images that this node pulled are removed, even after a restart.
func TestOthersImagesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pulled.json")
	s := &service{
		present: []*runtimeapi.Image{{Id: "built", Size: 50}, {Id: "id-again", RepoTags: []string{"again"}, Size: 50}}}
	open := func() *Pulled {
		t.Helper()
		p, err := OpenPulled(path)
		testutil.Must(t, err)
		return p
	}
	puller := New(Options{Service: NewImages(s), Pulled: open()})
	for _, image := range []string{"ours", "again"} {
		_, _, err := puller.Ensure(t.Context(), request(image, v1.PullAlways))
		testutil.Must(t, err)
	}
	collect := func(pulled *Pulled) []string {
		s.removed = nil
		opts := onFullDisk(s, containers{})
		opts.Pulled = pulled
		err := NewCollector(opts).Collect(t.Context())
		testutil.Assert(t, err != nil || pulled == nil, "an image without a size freed the disk")
		return s.removed
	}
	got := collect(open())
	testutil.Assert(t, slices.Equal(got, []string{"id-ours"}), "removed %v", got)
	s.present = slices.DeleteFunc(s.present, func(i *runtimeapi.Image) bool { return i.GetId() == "id-ours" })
	collect(open())
	s.present = append(s.present, &runtimeapi.Image{Id: "id-ours"}) // another client pulled it again
	got = collect(open())
	testutil.Assert(t, len(got) == 0, "removed %v", got)
	testutil.Assert(t, len(collect(nil)) != 0, "without a record nothing is removed")
}

// TestPullsShareAList: pulls within recentAge share a list, until an image is removed.
func TestPullsShareAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		images := NewImages(s)
		pulled, err := OpenPulled(filepath.Join(t.TempDir(), "pulled.json"))
		testutil.Must(t, err)
		puller := New(Options{Service: images, Pulled: pulled})
		pull := func(image string, lists int) {
			t.Helper()
			before := s.lists
			_, _, err := puller.Ensure(t.Context(), request(image, v1.PullAlways))
			testutil.Must(t, err)
			testutil.Equal(t, s.lists-before, lists, "the pull of %s listed", image)
		}
		pull("a", 1)
		pull("b", 0)
		s.present = append(s.present, &runtimeapi.Image{Id: "id-built", RepoTags: []string{"built"}})
		pull("built", 0)
		testutil.Assert(t, pulled.has("id-a") && pulled.has("id-b") && !pulled.has("id-built"),
			"recorded %v, want a and b", pulled.ids)
		time.Sleep(recentAge)
		pull("c", 1)
		testutil.Check(t, images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: "id-a"}))
		pull("d", 1)
	})
}

// TestFailedRecordIsWrittenLater: an image counts as pulled even if the file cannot be written. The next add writes it.
func TestFailedRecordIsWrittenLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "pulled.json")
	pulled, err := OpenPulled(path)
	testutil.Must(t, err)
	testutil.Assert(t, pulled.add("a") != nil, "a file in a missing directory was written")
	testutil.Assert(t, pulled.has("a"), "a pulled image does not count as pulled")
	testutil.Must(t, os.Mkdir(dir, 0o700))
	testutil.Must(t, pulled.add("a"))
	again, err := OpenPulled(path)
	testutil.Must(t, err)
	testutil.Assert(t, again.has("a"), "the file lacks the pulled image")
}

func TestPulledFileIsBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pulled.json")
	testutil.Must(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err := OpenPulled(path)
	testutil.Assert(t, err != nil, "a broken file was read")
}
