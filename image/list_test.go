package image

import (
	"slices"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
)

func TestListInspectsEachImageOnce(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}, User: "www-data:1004"}, {Names: []string{"b"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		for range 3 {
			list, err := s.List(t.Context(), &runtimeapi.ImageFilter{Image: spec("a")})
			if err != nil || len(list) != 1 || list[0].GetUsername() != "www-data" {
				t.Fatalf("got %v, %v", list, err)
			}
		}
		if n := engine.Calls("InspectImage"); n != 2 {
			t.Errorf("%d inspects of 2 images, want 2", n)
		}
	})
}

func TestImageWithSeveralNamesIsListedOnce(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2", "b:1"}}, {Names: []string{"c:1"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		list, err := s.List(t.Context(), nil)
		if err != nil || len(list) != 2 || list[0].GetId() == list[1].GetId() {
			t.Fatalf("the list is %v, %v", list, err)
		}
		names := slices.Concat(list[0].GetRepoTags(), list[1].GetRepoTags())
		slices.Sort(names)
		if !slices.Equal(names, []string{"a:1", "a:2", "b:1", "c:1"}) {
			t.Errorf("the names are %q", names)
		}
		byName, err := s.List(t.Context(), &runtimeapi.ImageFilter{Image: spec("b:1")})
		if err != nil || len(byName) != 1 || len(byName[0].GetRepoTags()) != 3 {
			t.Errorf("by one of its names the list is %v, %v", byName, err)
		}
	})
}

func TestListLeavesOutWhatIsBeingRemoved(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}}, {Names: []string{"b"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Inject("InspectImage", dockertest.Fault{Times: 1, Err: errdefs.ErrNotFound})
		if list, err := s.List(t.Context(), nil); err != nil || len(list) != 1 {
			t.Errorf("got %v, %v, want the other image", list, err)
		}
	})
}
