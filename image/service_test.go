package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	mobycontainer "github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
)

// flavors are the engines with different kinds of image ids.
var flavors = map[string]dockertest.Flavor{"20.10": dockertest.Docker20, "29": dockertest.Docker29}

// eachFlavor runs a test on an engine in memory of each flavor.
func eachFlavor(t *testing.T, opts dockertest.Options, test func(t *testing.T, engine *dockertest.Engine, s *Service)) {
	t.Helper()
	for name, flavor := range flavors {
		t.Run(name, func(t *testing.T) {
			opts.Flavor = flavor
			engine := dockertest.New(opts)
			t.Cleanup(engine.Close)
			test(t, engine, newService(t, Options{Engine: engine}))
		})
	}
}

func newService(t *testing.T, opts Options) *Service {
	t.Helper()
	s, err := New(opts)
	testutil.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

func spec(ref string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: ref} }

// statusOf returns the image of a reference, nil without one.
func statusOf(t *testing.T, s *Service, ref string) *runtimeapi.Image {
	t.Helper()
	response, err := s.Status(t.Context(), spec(ref), StatusOptions{})
	testutil.Require(t, err == nil, "status of %q: %v", ref, err)
	return response.GetImage()
}

func TestPulledImageHasOneID(t *testing.T) {
	registry := []dockertest.Image{{Names: []string{"127.0.0.1:5000/app:1"}, User: "1003:1004", Size: 42}}
	eachFlavor(t, dockertest.Options{Registry: registry}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		ref, err := s.Pull(t.Context(), spec("127.0.0.1:5000/app:1"), nil)
		testutil.Must(t, err)
		img := statusOf(t, s, "127.0.0.1:5000/app:1")
		testutil.Assert(t, img.GetId() == ref && ref != "", "the pull says %q, the status %q", ref, img.GetId())
		id, err := s.Resolve(t.Context(), "127.0.0.1:5000/app:1")
		testutil.Assert(t, err == nil && id == ref, "resolved to %q, %v", id, err)
		list, err := s.List(t.Context(), nil)
		testutil.Require(t, err == nil && len(list) == 1 && list[0].GetId() == ref, "the list is %v, %v", list, err)
		for _, got := range []*runtimeapi.Image{img, list[0]} {
			testutil.Assert(t, got.GetUid().GetValue() == 1003 && got.GetUsername() == "" && got.GetSize() == 42 &&
				!got.GetPinned(), "got %v", got)
			testutil.Assert(t, slices.Equal(got.GetRepoTags(), []string{"127.0.0.1:5000/app:1"}),
				"the tags are %q", got.GetRepoTags())
		}
		for _, other := range append([]string{ref, strings.TrimPrefix(ref, "sha256:")[:12]}, img.GetRepoDigests()...) {
			got := statusOf(t, s, other)
			testutil.Assert(t, got.GetId() == ref, "%q is %v", other, got)
		}
	})
}

// An image of two repositories has a name by digest in each of them. A loaded image has none.
func TestDigested(t *testing.T) {
	registry := []dockertest.Image{{Names: []string{"127.0.0.1:5000/app:1"}}}
	opts := dockertest.Options{Registry: registry, Images: []dockertest.Image{{
		Names: []string{"two:1"},
		Digests: []string{"one@sha256:" + strings.Repeat("1", 64),
			"127.0.0.1:5000/two@sha256:" + strings.Repeat("1", 64)},
	}}}
	eachFlavor(t, opts, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		id, err := s.Pull(t.Context(), spec("127.0.0.1:5000/app:1"), nil)
		testutil.Must(t, err)
		two, err := s.Resolve(t.Context(), "two:1")
		testutil.Must(t, err)
		digests := statusOf(t, s, id).GetRepoDigests()
		looks := engine.Calls("InspectImage")
		for _, tt := range []struct{ id, name, want string }{
			{id, "127.0.0.1:5000/app:1", digests[0]},
			{id, id, digests[0]},
			{two, "127.0.0.1:5000/two:7", "127.0.0.1:5000/two@sha256:" + strings.Repeat("1", 64)},
			{two, "docker.io/library/one", "one@sha256:" + strings.Repeat("1", 64)},
		} {
			if got, err := s.Digested(t.Context(), tt.id, tt.name); err != nil || got != tt.want {
				t.Errorf("%s of %s: %q, %v, want %q", tt.name, tt.id, got, err, tt.want)
			}
		}
		more := engine.Calls("InspectImage") - looks
		testutil.Assert(t, more == 0, "the engine was asked %d times", more)
		_, err = s.Digested(t.Context(), "sha256:"+strings.Repeat("0", 64), "x")
		testutil.Fails(t, err, errdefs.IsNotFound, "of an unknown image")
	})
}

func TestStatusOfAnUnknownImageIsNoError(t *testing.T) {
	eachFlavor(t, dockertest.Options{}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		img := statusOf(t, s, "nothing:here")
		testutil.Assert(t, img == nil, "got %v", img)
		_, err := s.Resolve(t.Context(), "nothing:here")
		testutil.Assert(t, errdefs.IsNotFound(err), "resolved with %v, want ErrNotFound", err)
		_, err = s.Pull(t.Context(), spec("nothing:here"), nil)
		testutil.Assert(t, errdefs.IsNotFound(err), "pulled with %v, want ErrNotFound", err)
	})
}

func TestVerboseStatusHasTheConfiguration(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"app"}, Env: []string{"A=b"}, Entrypoint: []string{"/app"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		response, err := s.Status(t.Context(), spec("app"), StatusOptions{Verbose: true})
		testutil.Must(t, err)
		for _, part := range []string{`"imageSpec"`, `"Entrypoint":["/app"]`, `"Env":["A=b"]`} {
			testutil.Assert(t, strings.Contains(response.GetInfo()["info"], part),
				"no %s in %s", part, response.GetInfo()["info"])
		}
	})
}

func TestEngineAway(t *testing.T) {
	eachFlavor(t, dockertest.Options{}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Away()
		_, listErr := s.List(t.Context(), nil)
		_, statusErr := s.Status(t.Context(), spec("a"), StatusOptions{})
		_, pullErr := s.Pull(t.Context(), spec("a"), nil)
		_, fsErr := s.FsInfo(t.Context())
		_, ensureErr := s.EnsureSandboxImage(t.Context())
		for call, err := range map[string]error{
			"List": listErr, "Status": statusErr, "Pull": pullErr, "Remove": s.Remove(t.Context(), spec("a")),
			"FsInfo": fsErr, "EnsureSandboxImage": ensureErr,
		} {
			testutil.Assert(t, errdefs.IsUnavailable(err) && !errors.Is(err, crierrors.ErrRegistryUnavailable),
				"%s: %v, want ErrUnavailable", call, err)
		}
	})
}

func TestPullWithCredentials(t *testing.T) {
	registry := []dockertest.Image{{Names: []string{"private"}, Auth: &docker.Auth{Username: "u", Password: "p"}}}
	eachFlavor(t, dockertest.Options{Registry: registry}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		_, err := s.Pull(t.Context(), spec("private"), nil)
		testutil.Assert(t, errdefs.IsUnauthorized(err), "without credentials: %v", err)
		_, err = s.Pull(t.Context(), spec("private"), &runtimeapi.AuthConfig{Auth: encoded("u:p\x00")})
		testutil.Check(t, err, "with an auth string")
		_, err = s.Pull(t.Context(), spec("private"), &runtimeapi.AuthConfig{Auth: "?"})
		testutil.Fails(t, err, errdefs.IsInvalidArgument, "with nonsense")
	})
}

func TestPullErrorsForTheKubelet(t *testing.T) {
	trouble := fmt.Errorf("%w: Get https://r.example/v2/: connection refused", docker.ErrRegistryUnavailable)
	eachFlavor(t, dockertest.Options{}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Inject("PullImage", dockertest.Fault{Err: trouble})
		_, err := s.Pull(t.Context(), spec("r.example/a"), nil)
		testutil.Assert(t, errors.Is(err, crierrors.ErrRegistryUnavailable) &&
			strings.HasPrefix(err.Error(), "RegistryUnavailable: "), "got %v, want the sentinel at the beginning", err)
		testutil.Assert(t, strings.Contains(err.Error(), "connection refused"),
			"got %v, want the engine's reason in the text", err)
	})
}

// A registry redirects to URLs whose query suffices for a download. The kubelet puts the error into an event.
func TestPullErrorsHideTheQueriesOfURLs(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://s3.example/blob?X-Amz-Signature=hunter2&X-Amz-Date=1": dial tcp: i/o timeout`: `Get ` +
			`"https://s3.example/blob?…": dial tcp: i/o timeout`,
		"GET https://s3.example/blob?sig=hunter2: 403 Forbidden": "GET https://s3.example/blob?…: 403 Forbidden",
		`{"detail":"Get \"https://s3.example/b?sig=hunter2\" failed"}`: `{"detail":"Get ` +
			`\"https://s3.example/b?…\" failed"}`,
		"is the name r.example/a?b wrong? see https://r.example/help": "is the name r.example/a?b wrong? see " +
			"https://r.example/help",
	} {
		cause := fmt.Errorf("%w: %s", docker.ErrRegistryUnavailable, text)
		eachFlavor(t, dockertest.Options{}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
			engine.Inject("PullImage", dockertest.Fault{Err: cause})
			_, err := s.Pull(t.Context(), spec("r.example/a"), nil)
			testutil.Assert(t, errors.Is(err, crierrors.ErrRegistryUnavailable) &&
				strings.HasPrefix(err.Error(), "RegistryUnavailable: ") && strings.HasSuffix(err.Error(), want),
				"got %v, want the sentinel and %q", err, want)
		})
	}
}

func TestPullWithoutProgressIsCancelled(t *testing.T) {
	engine := dockertest.New(dockertest.Options{})
	defer engine.Close()
	engine.Inject("PullImage", dockertest.Fault{Block: true})
	s := newService(t, Options{Engine: engine, PullProgressDeadline: 20 * time.Millisecond})
	_, err := s.Pull(t.Context(), spec("a"), nil)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded) &&
		strings.Contains(err.Error(), "no progress for 20ms"), "got %v, want a DeadlineExceeded that says why", err)
}

func TestPullEndsWithItsCaller(t *testing.T) {
	eachFlavor(t, dockertest.Options{}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		engine.Inject("PullImage", dockertest.Fault{Block: true})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := s.Pull(ctx, spec("a"), nil)
		testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v, want DeadlineExceeded", err)
	})
}

func TestPullOfAnUnknownRuntimeHandler(t *testing.T) {
	registry := []dockertest.Image{{Names: []string{"a"}}}
	eachFlavor(t, dockertest.Options{Registry: registry}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		_, err := s.Pull(t.Context(), &runtimeapi.ImageSpec{Image: "a", RuntimeHandler: "kata"}, nil)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "got %v, want ErrInvalidArgument", err)
		_, err = s.Pull(t.Context(), &runtimeapi.ImageSpec{Image: "a", RuntimeHandler: "runc"}, nil)
		testutil.Check(t, err, "a known one")
	})
}

func TestRemoveTakesAllNames(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2", "127.0.0.1:5000/other/name:3"}}}
	for what, ref := range map[string]func(*runtimeapi.Image) string{
		"name": func(*runtimeapi.Image) string { return "a:2" },
		"id":   func(img *runtimeapi.Image) string { return img.GetId() },
		"digest": func(img *runtimeapi.Image) string {
			return img.GetRepoDigests()[0]
		},
	} {
		t.Run(what, func(t *testing.T) {
			eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
				img := statusOf(t, s, "a:1")
				testutil.Must(t, s.Remove(t.Context(), spec(ref(img))))
				list, err := s.List(t.Context(), nil)
				testutil.Assert(t, err == nil && len(list) == 0, "left: %v, %v", list, err)
				testutil.Check(t, s.Remove(t.Context(), spec(img.GetId())), "a second time")
				_, err = s.Resolve(t.Context(), img.GetId())
				testutil.Assert(t, errdefs.IsNotFound(err), "resolved afterwards with %v, want ErrNotFound", err)
			})
		})
	}
}

func TestMountedImagesStay(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"base:1"}}, {Names: []string{"model:1", "model:latest"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		var source string
		s.mounted = func(c mobycontainer.Summary) []string {
			if c.Labels["mounts"] == "model" {
				return []string{source}
			}
			return nil
		}
		id, err := engine.CreateContainer(t.Context(), docker.ContainerSpec{
			Name:   "reader",
			Config: &mobycontainer.Config{Image: "base:1", Labels: map[string]string{"mounts": "model"}},
		})
		testutil.Must(t, err)
		// A user may name the image: docker run --mount type=image,source=model
		for _, source = range []string{statusOf(t, s, "model:1").GetId(), "model"} {
			err = s.Remove(t.Context(), spec("model:1"))
			testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), id),
				"removed with %v, want ErrFailedPrecondition that names the container", err)
		}
		tags := statusOf(t, s, "model:1").GetRepoTags()
		testutil.Assert(t, len(tags) == 2, "the image has the names %v", tags)
		testutil.Must(t, engine.RemoveContainer(t.Context(), id))
		testutil.Check(t, s.Remove(t.Context(), spec("model:1")))
	})
}

func TestConcurrentRemovalsSucceed(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				testutil.Check(t, s.Remove(t.Context(), spec(fmt.Sprintf("a:%d", 1+i%2))))
			})
		}
		group.Wait()
		img := statusOf(t, s, "a:1")
		testutil.Assert(t, img == nil, "left: %v", img)
	})
}

func TestUsedImageKeepsItsNames(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"a:1", "a:2"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		_, err := engine.CreateContainer(t.Context(), docker.ContainerSpec{
			Name: "user", Config: &mobycontainer.Config{Image: "a:1"}, Host: &mobycontainer.HostConfig{},
		})
		testutil.Must(t, err)
		err = s.Remove(t.Context(), spec("a:2"))
		testutil.Assert(t, errdefs.IsFailedPrecondition(err), "got %v, want ErrFailedPrecondition", err)
		img := statusOf(t, s, "a:1")
		testutil.Assert(t, len(img.GetRepoTags()) == 2, "left: %v", img)
	})
}

func TestBuiltInSandboxImage(t *testing.T) {
	eachFlavor(t, dockertest.Options{}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		for range 3 {
			ref, err := s.EnsureSandboxImage(t.Context())
			testutil.Require(t, err == nil && ref == pause.Reference, "got %q, %v", ref, err)
		}
		n := engine.Calls("LoadImage")
		testutil.Assert(t, n == 1, "loaded %d times, want once", n)
		img := statusOf(t, s, pause.Reference)
		testutil.Assert(t, img.GetPinned(), "the sandbox image is not pinned")
		for _, ref := range []string{pause.Reference, img.GetId()} {
			testutil.Fails(t, s.Remove(t.Context(), spec(ref)), errdefs.IsFailedPrecondition, "removal of %q", ref)
		}
		testutil.Must(t, engine.RemoveImage(t.Context(), pause.Reference))
		_, err := s.ReloadSandboxImage(t.Context())
		testutil.Must(t, err)
		again := statusOf(t, s, pause.Reference)
		testutil.Assert(t, again.GetId() == img.GetId(), "reloaded as %q, was %q", again.GetId(), img.GetId())
	})
}

func TestSandboxImageUnderAnotherName(t *testing.T) {
	eachFlavor(t, dockertest.Options{}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		_, err := s.EnsureSandboxImage(t.Context())
		testutil.Must(t, err)
		testutil.Must(t, engine.TagImage(t.Context(), pause.Reference, "mine:1"))
		err = s.Remove(t.Context(), spec("mine:1"))
		testutil.Assert(t, errdefs.IsFailedPrecondition(err), "got %v, want ErrFailedPrecondition", err)
	})
}

// The image of an earlier version is pinned as long as a pod has it. After that it is not pinned.
func TestSandboxImageOfAnEarlierVersion(t *testing.T) {
	images := []dockertest.Image{{Names: []string{"pause:0"}}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, engine *dockertest.Engine, s *Service) {
		id := statusOf(t, s, "pause:0").GetId()
		_, err := engine.CreateContainer(t.Context(), docker.ContainerSpec{
			Name: "k8s_POD_old", Config: &mobycontainer.Config{Image: id}})
		testutil.Must(t, err)
		testutil.Fails(t, s.Remove(t.Context(), spec(id)), errdefs.IsFailedPrecondition, "removal")
		for _, used := range []bool{true, false} {
			s.podImages = func() map[string]bool { return map[string]bool{id: used} }
			testutil.Equal(t, statusOf(t, s, id).GetPinned(), used, "ImageStatus, used %t", used)
			list, err := s.List(t.Context(), &runtimeapi.ImageFilter{Image: spec(id)})
			testutil.Must(t, err)
			testutil.Assert(t, len(list) == 1 && list[0].GetPinned() == used, "ListImages, used %t: %v", used, list)
		}
	})
}

// Pods get the built-in image, whichever image has its name.
func TestImageThatTookTheSandboxImagesName(t *testing.T) {
	images := []dockertest.Image{{Names: []string{pause.Reference}, Size: 5 << 20}}
	eachFlavor(t, dockertest.Options{Images: images}, func(t *testing.T, _ *dockertest.Engine, s *Service) {
		before := statusOf(t, s, pause.Reference)
		_, err := s.EnsureSandboxImage(t.Context())
		testutil.Must(t, err)
		testutil.Assert(t, statusOf(t, s, pause.Reference).GetId() != before.GetId(), "pods would run a foreign image")
	})
}

func TestConfiguredSandboxImage(t *testing.T) {
	registry := []dockertest.Image{{Names: []string{"registry.example/pause:3.9"}}}
	for name, flavor := range flavors {
		t.Run(name, func(t *testing.T) {
			engine := dockertest.New(dockertest.Options{Flavor: flavor, Registry: registry})
			defer engine.Close()
			s := newService(t, Options{Engine: engine, SandboxImage: "registry.example/pause:3.9"})
			for range 2 {
				ref, err := s.EnsureSandboxImage(t.Context())
				testutil.Require(t, err == nil && ref == "registry.example/pause:3.9", "got %q, %v", ref, err)
			}
			pulls, loads := engine.Calls("PullImage"), engine.Calls("LoadImage")
			testutil.Assert(t, pulls == 1 && loads == 0, "%d pulls and %d loads, want one pull", pulls, loads)
			img := statusOf(t, s, "registry.example/pause:3.9")
			testutil.Assert(t, img.GetPinned(), "the sandbox image is not pinned")
		})
	}
}

func TestConfiguredSandboxImageThatIsNowhere(t *testing.T) {
	engine := dockertest.New(dockertest.Options{})
	defer engine.Close()
	s := newService(t, Options{Engine: engine, SandboxImage: "registry.example/pause:3.9"})
	_, err := s.EnsureSandboxImage(t.Context())
	testutil.Assert(t, errdefs.IsNotFound(err) && strings.Contains(err.Error(), "--pod-infra-container-image"),
		"got %v, want ErrNotFound that names the flag", err)
	_, err = New(Options{Engine: engine, SandboxImage: "Not A Name"})
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "got %v, want ErrInvalidArgument", err)
	_, err = New(Options{Engine: engine, PullProgressDeadline: -1})
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "got %v, want ErrInvalidArgument", err)
}
