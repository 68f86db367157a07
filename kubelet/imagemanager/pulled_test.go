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
)

// TestOthersImagesStay removes from a full disk what the node pulled, in an earlier process, too, and nothing else.
func TestOthersImagesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pulled.json")
	s := &service{present: []*runtimeapi.Image{{Id: "built", Size: 50}, {Id: "id-again", RepoTags: []string{"again"}, Size: 50}}}
	open := func() *Pulled {
		t.Helper()
		p, err := OpenPulled(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	puller := New(Options{Service: NewImages(s), Pulled: open()})
	for _, image := range []string{"ours", "again"} {
		if _, _, err := puller.Ensure(t.Context(), request(image, v1.PullAlways)); err != nil {
			t.Fatal(err)
		}
	}
	collect := func(pulled *Pulled) []string {
		s.removed = nil
		c := NewCollector(CollectorOptions{
			Images: s, Containers: containers{}, HighPercent: 90, LowPercent: 80, Pulled: pulled,
			Disk: func(string) (uint64, uint64, error) { return 100, 0, nil },
		})
		if err := c.Collect(t.Context()); err == nil && pulled != nil {
			t.Error("the image that may go has no size, and yet it freed the disk")
		}
		return s.removed
	}
	if got := collect(open()); !slices.Equal(got, []string{"id-ours"}) {
		t.Errorf("removed %v", got)
	}
	s.present = slices.DeleteFunc(s.present, func(i *runtimeapi.Image) bool { return i.GetId() == "id-ours" })
	collect(open())
	s.present = append(s.present, &runtimeapi.Image{Id: "id-ours"}) // somebody else's now
	if got := collect(open()); len(got) != 0 {
		t.Errorf("removed %v", got)
	}
	if got := collect(nil); len(got) == 0 {
		t.Error("told to take all images, it took none")
	}
}

// TestPullsShareAList, which also shows that a removed image is not there before it is pulled again.
func TestPullsShareAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		images := NewImages(s)
		pulled, err := OpenPulled(filepath.Join(t.TempDir(), "pulled.json"))
		if err != nil {
			t.Fatal(err)
		}
		puller := New(Options{Service: images, Pulled: pulled})
		pull := func(image string, lists int) {
			t.Helper()
			before := s.lists
			if _, _, err := puller.Ensure(t.Context(), request(image, v1.PullAlways)); err != nil {
				t.Fatal(err)
			}
			if got := s.lists - before; got != lists {
				t.Errorf("the pull of %s listed %d times, want %d", image, got, lists)
			}
		}
		pull("a", 1)
		pull("b", 0)
		s.present = append(s.present, &runtimeapi.Image{Id: "id-built", RepoTags: []string{"built"}})
		pull("built", 0)
		if !pulled.has("id-a") || !pulled.has("id-b") || pulled.has("id-built") {
			t.Errorf("remembered %v, want a and b", pulled.ids)
		}
		time.Sleep(recentAge)
		pull("c", 1)
		if err := images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: "id-a"}); err != nil {
			t.Error(err)
		}
		pull("d", 1)
	})
}

func TestPulledFileIsBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pulled.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPulled(path); err == nil {
		t.Error("it was read")
	}
}
