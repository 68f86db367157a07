package image

import (
	"context"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
	mobyimage "github.com/moby/moby/api/types/image"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
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

// namesApart lists an image once for each of its names, as some engines do.
type namesApart struct{ docker.Engine }

func (e namesApart) ListImages(ctx context.Context) ([]mobyimage.Summary, error) {
	summaries, err := e.Engine.ListImages(ctx)
	var apart []mobyimage.Summary
	for _, summary := range summaries {
		for _, tag := range summary.RepoTags {
			one := summary
			one.RepoTags = []string{tag}
			apart = append(apart, one)
		}
	}
	return apart, err
}

func TestImageWithSeveralNamesIsListedOnce(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2", "b:1"}}, {Names: []string{"c:1"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, _ *Service) {
		for what, engine := range map[string]docker.Engine{"together": engine, "apart": namesApart{engine}} {
			s := newService(t, Options{Engine: engine})
			list, err := s.List(t.Context(), nil)
			if err != nil || len(list) != 2 || list[0].GetId() == list[1].GetId() {
				t.Fatalf("names %s: the list is %v, %v", what, list, err)
			}
			names := slices.Concat(list[0].GetRepoTags(), list[1].GetRepoTags())
			slices.Sort(names)
			if !slices.Equal(names, []string{"a:1", "a:2", "b:1", "c:1"}) {
				t.Errorf("names %s: %q", what, names)
			}
			digests := slices.Concat(list[0].GetRepoDigests(), list[1].GetRepoDigests())
			if len(slices.Compact(slices.Sorted(slices.Values(digests)))) != len(digests) {
				t.Errorf("names %s: %q has doubles", what, digests)
			}
			byName, err := s.List(t.Context(), &runtimeapi.ImageFilter{Image: spec("b:1")})
			if err != nil || len(byName) != 1 || len(byName[0].GetRepoTags()) != 3 {
				t.Errorf("names %s: by one of them the list is %v, %v", what, byName, err)
			}
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
