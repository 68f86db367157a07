package image

import (
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestListInspectsEachImageOnce(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}, User: "www-data:1004"}, {Names: []string{"b"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		for range 3 {
			list, err := s.List(t.Context(), &runtimeapi.ImageFilter{Image: spec("a")})
			testutil.Require(t, err == nil && len(list) == 1 && list[0].GetUsername() == "www-data",
				"got %v, %v", list, err)
		}
		testutil.Equal(t, engine.Calls("InspectImage"), 2, "inspects of 2 images")
	})
}

func TestImageWithSeveralNamesIsListedOnce(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2", "b:1"}}, {Names: []string{"c:1"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		list, err := s.List(t.Context(), nil)
		testutil.Require(t, err == nil && len(list) == 2 && list[0].GetId() != list[1].GetId(),
			"the list is %v, %v", list, err)
		names := slices.Concat(list[0].GetRepoTags(), list[1].GetRepoTags())
		slices.Sort(names)
		testutil.Assert(t, slices.Equal(names, []string{"a:1", "a:2", "b:1", "c:1"}), "the names are %q", names)
		byName, err := s.List(t.Context(), &runtimeapi.ImageFilter{Image: spec("b:1")})
		testutil.Assert(t, err == nil && len(byName) == 1 && len(byName[0].GetRepoTags()) == 3,
			"by one of its names the list is %v, %v", byName, err)
	})
}

func TestListLeavesOutWhatIsBeingRemoved(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}}, {Names: []string{"b"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Inject("InspectImage", dockertest.Fault{Times: 1, Err: errdefs.ErrNotFound})
		list, err := s.List(t.Context(), nil)
		testutil.Assert(t, err == nil && len(list) == 1, "got %v, %v, want the other image", list, err)
	})
}

// An image that the engine cannot inspect is listed from its summary. The log has one warning, and each relist inspects
// the image again.
func TestListWithAnImageThatCannotBeInspected(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}, User: "1004"}, {Names: []string{"b"}, User: "1005"}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		var logged testutil.Buffer
		logger := logrus.New()
		logger.SetOutput(&logged)
		ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
		engine.Inject("InspectImage", dockertest.Fault{Times: 4, Err: errdefs.ErrInternal})
		for range 2 {
			testutil.Must(t, s.images.relistInTurn(ctx))
			list, err := s.List(ctx, nil)
			testutil.Require(t, err == nil && len(list) == 2 && list[0].GetUid() == nil &&
				len(list[0].GetRepoTags()) == 1, "got %v, %v, want both images without a user", list, err)
		}
		n := strings.Count(logged.String(), "cannot inspect image")
		testutil.Assert(t, n == 2, "%d warnings for two images:\n%s", n, &logged)
		testutil.Must(t, s.images.relistInTurn(ctx))
		list, err := s.List(ctx, nil)
		testutil.Assert(t, err == nil && len(list) == 2 && list[0].GetUid() != nil && list[1].GetUid() != nil,
			"after the engine can inspect them: %v, %v", list, err)
	})
}

// For a kubelet, an image without a user runs as root, so a status must not leave out the user.
func TestStatusOfAnImageThatCannotBeInspected(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}, User: "1004"}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Inject("InspectImage", dockertest.Fault{Times: 2, Err: errdefs.ErrInternal})
		list, err := s.List(t.Context(), nil)
		testutil.Require(t, err == nil && len(list) == 1 && list[0].GetUid() == nil, "the list is %v, %v", list, err)
		_, err = s.Status(t.Context(), spec("a"), StatusOptions{})
		testutil.Fails(t, err, errdefs.IsInternal, "the status of an image whose user is unknown")
		got := statusOf(t, s, "a")
		testutil.Assert(t, got.GetUid().GetValue() == 1004, "after the engine can inspect it: %v", got)

		engine.Inject("InspectImage", dockertest.Fault{Err: errdefs.ErrInternal})
		got = statusOf(t, s, "a")
		testutil.Assert(t, got.GetUid().GetValue() == 1004, "later it is not from memory: %v", got)
	})
}

// An image that was inspected once keeps its user, even if its next inspect fails.
func TestUserOutlastsAFailedInspect(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}, User: "1004"}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		before := statusOf(t, s, "a")
		engine.Inject("InspectImage", dockertest.Fault{Times: 1, Err: errdefs.ErrInternal})
		s.Changed(before.GetId())
		testutil.Must(t, s.images.relistInTurn(t.Context()))
		after := statusOf(t, s, "a")
		testutil.Assert(t, after.GetUid().GetValue() == 1004, "got %v, was %v", after, before)
	})
}

// List fails if the engine goes away before the images are inspected. The list would be incomplete.
func TestListFailsWhenTheEngineIsAway(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Inject("InspectImage", dockertest.Fault{Err: errdefs.ErrUnavailable})
		list, err := s.List(t.Context(), nil)
		testutil.Assert(t, errdefs.IsUnavailable(err), "got %v, %v", list, err)
	})
}
