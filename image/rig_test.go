package image_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	mobycontainer "github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/image/artifact"
	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/artifacts"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// rig is the private engine with images that this test made and pushed. Their removal disturbs no other test.
type rig struct {
	*image.Service
	env    rigenv.Env
	engine *docker.Client
}

func newRig(t *testing.T, opts image.Options) *rig {
	t.Helper()
	env := rigenv.Require(t)
	engine, err := docker.Dial(docker.Options{Host: env.DockerHost, RequestTimeout: time.Minute})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	store, err := artifact.Open(t.Context(), artifact.Options{Root: filepath.Join(t.TempDir(), "artifacts")})
	testutil.Must(t, err)
	opts.Engine = artifact.Engine{Engine: engine, Store: store}
	service, err := image.New(opts)
	testutil.Must(t, err)
	t.Cleanup(service.Close)
	return &rig{Service: service, env: env, engine: engine}
}

// fresh makes an image that exists nowhere else.
func fresh(t *testing.T, layerSize int64, config v1.Config) v1.Image {
	t.Helper()
	return freshLayers(t, 1, layerSize, config)
}

func freshLayers(t *testing.T, layers, layerSize int64, config v1.Config) v1.Image {
	t.Helper()
	img, err := random.Image(layerSize, layers)
	testutil.Must(t, err)
	file, err := img.ConfigFile()
	testutil.Must(t, err)
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = "amd64", "linux", config
	img, err = mutate.ConfigFile(img, file)
	testutil.Must(t, err)
	return img
}

// push uploads an image to the rig's registry under these "repository:tag" names. At the test's end it removes the
// image from the engine.
func (r *rig) push(t *testing.T, img v1.Image, tags ...string) {
	t.Helper()
	for _, tag := range tags {
		artifacts.Push(t, r.env.Image(tag), img)
	}
	id, err := img.ConfigName()
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, r.Remove(context.Background(), spec(id.String())), "clean up")
	})
}

func spec(ref string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: ref} }

// name returns a repository that only this test of this run uses.
func name(t *testing.T) string {
	return fmt.Sprintf("image-%d/%s", os.Getpid(), strings.ToLower(t.Name()))
}

// pull pulls an image and returns its id.
func (r *rig) pull(t *testing.T, ref string) string {
	t.Helper()
	id, err := r.Pull(t.Context(), spec(ref), nil)
	testutil.Must(t, err)
	return id
}

func (r *rig) status(t *testing.T, ref string) *runtimeapi.Image {
	t.Helper()
	response, err := r.Status(t.Context(), spec(ref), image.StatusOptions{})
	testutil.Must(t, err)
	return response.GetImage()
}

func TestRigImageHasOneID(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{User: "www-data:1004", Cmd: []string{"/x"}}), ref)
	full := r.env.Image(ref)
	id := r.pull(t, full)
	img := r.status(t, full)
	testutil.Assert(t, img.GetId() == id && img.GetUsername() == "www-data" && img.GetUid() == nil &&
		img.GetSize() != 0, "the pull says %s, the status %v", id, img)
	list, err := r.List(t.Context(), &runtimeapi.ImageFilter{Image: spec(full)})
	testutil.Must(t, err)
	testutil.Assert(t, len(list) == 1 && list[0].GetId() == id && list[0].GetUsername() == "www-data",
		"the list is %v", list)
	container, err := r.engine.CreateContainer(t.Context(), docker.ContainerSpec{
		Config: &mobycontainer.Config{Image: id},
		Host:   &mobycontainer.HostConfig{NetworkMode: "none"},
	})
	testutil.Must(t, err)
	defer func() { testutil.Must(t, r.engine.RemoveContainer(context.Background(), container)) }()
	inspect, err := r.engine.InspectContainer(t.Context(), container)
	testutil.Must(t, err)
	testutil.Assert(t, inspect.Image == id, "the container says %s, the pull %s", inspect.Image, id)
	testutil.Fails(t, r.Remove(t.Context(), spec(full)), errdefs.IsFailedPrecondition, "removal of a used image")
	testutil.Assert(t, r.status(t, full) != nil, "the used image lost its name")
}

func TestRigImageWithTwoNamesIsListedOnce(t *testing.T) {
	r := newRig(t, image.Options{})
	refs := []string{name(t) + ":1", name(t) + ":2", name(t) + "-other:1"}
	r.push(t, fresh(t, 1000, v1.Config{}), refs...)
	var id string
	var want []string
	for _, ref := range refs {
		full := r.env.Image(ref)
		got := r.pull(t, full)
		id, want = got, append(want, full)
	}
	list, err := r.List(t.Context(), &runtimeapi.ImageFilter{})
	testutil.Must(t, err)
	list = slices.DeleteFunc(list, func(img *runtimeapi.Image) bool { return img.GetId() != id })
	testutil.Require(t, len(list) == 1, "the image is listed %d times: %v", len(list), list)
	tags := slices.Sorted(slices.Values(list[0].GetRepoTags()))
	slices.Sort(want)
	if !slices.Equal(tags, want) || len(list[0].GetRepoDigests()) != 2 { // one for each repository
		t.Errorf("the image is %v, want the tags %q", list[0], want)
	}
}

func TestRigPullByDigest(t *testing.T) {
	r := newRig(t, image.Options{})
	repository := name(t)
	img := fresh(t, 1000, v1.Config{})
	r.push(t, img, repository+":1")
	digest, err := img.Digest()
	testutil.Must(t, err)
	byDigest := r.env.Image(repository) + "@" + digest.String()
	for _, ref := range []string{byDigest, r.env.Image(repository) + ":1@" + digest.String()} {
		id := r.pull(t, ref)
		got := r.status(t, ref)
		testutil.Assert(t, got.GetId() == id && len(got.GetRepoTags()) == 0 &&
			slices.Equal(got.GetRepoDigests(), []string{byDigest}), "%s: got %v", ref, got)
		testutil.Must(t, r.Remove(t.Context(), spec(ref)))
		left := r.status(t, id)
		testutil.Assert(t, left == nil, "left: %v", left)
	}
}

func TestRigPullWithCredentials(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{}), ref)
	full := r.env.AuthRegistry + "/" + ref
	for what, auth := range map[string]*runtimeapi.AuthConfig{
		"none":           nil,
		"wrong password": {Username: rigenv.RegistryUser, Password: "wrong"},
	} {
		_, err := r.Pull(t.Context(), spec(full), auth)
		testutil.Assert(t, err != nil, "%s: pulled", what)
	}
	for what, auth := range map[string]*runtimeapi.AuthConfig{
		"user and password": {Username: rigenv.RegistryUser, Password: rigenv.RegistryPassword},
		"with the address": {Username: rigenv.RegistryUser, Password: rigenv.RegistryPassword,
			ServerAddress: r.env.AuthRegistry},
		// base64 of rig:rig-password
		"auth string": {Auth: "cmlnOnJpZy1wYXNzd29yZA=="},
	} {
		_, err := r.Pull(t.Context(), spec(full), auth)
		testutil.Assert(t, err == nil, "%s: %v", what, err)
		testutil.Must(t, r.Remove(t.Context(), spec(full)))
	}
}

func TestRigPullOfWhatIsNotThere(t *testing.T) {
	r := newRig(t, image.Options{})
	_, err := r.Pull(t.Context(), spec(r.env.Image(name(t)+":1")), nil)
	testutil.Assert(t, errdefs.IsNotFound(err), "got %v, want ErrNotFound", err)
}

func TestRigRegistryInTrouble(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{}), ref)
	for what, full := range map[string]string{
		"answers 503":    r.env.Image(rigenv.PrefixUnavailable + "/" + ref),
		"is not there":   "127.0.0.1:1/" + ref,
		"has no address": "registry.invalid/" + ref,
	} {
		_, err := r.Pull(t.Context(), spec(full), nil)
		testutil.Assert(t, errors.Is(err, crierrors.ErrRegistryUnavailable) &&
			strings.HasPrefix(err.Error(), crierrors.ErrRegistryUnavailable.Error()),
			"registry %s: %v, want RegistryUnavailable first", what, err)
	}
	// A broken image is not reported as an unavailable registry.
	for _, prefix := range []string{rigenv.PrefixCorrupt, rigenv.PrefixNoBlobs} {
		full := r.env.Image(prefix + "/" + ref)
		_, err := r.Pull(t.Context(), spec(full), nil)
		testutil.Assert(t, err != nil && !errors.Is(err, crierrors.ErrRegistryUnavailable), "%s: %v", prefix, err)
		testutil.Assert(t, r.status(t, full) == nil, "%s: the image is there", prefix)
	}
}

func TestRigPullProgressDeadline(t *testing.T) {
	const deadline = 15 * rigenv.SlowPause // much longer than a busy machine pauses
	r := newRig(t, image.Options{PullProgressDeadline: deadline})
	ref := name(t) + ":1"
	r.push(t, fresh(t, 24*rigenv.SlowPiece, v1.Config{}), ref)
	begun := time.Now()
	_, err := r.Pull(t.Context(), spec(r.env.Image(rigenv.PrefixStalled+"/"+ref)), nil)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "no progress"),
		"stalled: %v, want DeadlineExceeded with \"no progress\"", err)
	took := time.Since(begun)
	testutil.Assert(t, took <= 30*time.Second, "noticed after %s", took)
	begun = time.Now()
	_, err = r.Pull(t.Context(), spec(r.env.Image(rigenv.PrefixSlow+"/"+ref)), nil)
	testutil.Check(t, err, "slow, but alive")
	took = time.Since(begun)
	testutil.Assert(t, took >= deadline, "the slow pull took only %s, which shows nothing", took)
}

func TestRigPullEndsWithItsCaller(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	r.push(t, fresh(t, 12*rigenv.SlowPiece, v1.Config{}), ref)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := r.Pull(ctx, spec(r.env.Image(rigenv.PrefixStalled+"/"+ref)), nil)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v, want DeadlineExceeded", err)
	took := time.Since(begun)
	testutil.Assert(t, took <= 5*time.Second, "took %s", took)
}

func TestRigRemoveTakesAllNames(t *testing.T) {
	r := newRig(t, image.Options{})
	tags := []string{name(t) + ":1", name(t) + ":2", name(t) + "-other:1"}
	r.push(t, fresh(t, 1000, v1.Config{}), tags...)
	var id string
	for range 3 {
		for _, tag := range tags {
			id = r.pull(t, r.env.Image(tag))
		}
		got := r.status(t, id)
		testutil.Require(t, len(got.GetRepoTags()) == len(tags), "got %v", got)
		var group sync.WaitGroup
		for _, ref := range []string{r.env.Image(tags[0]), r.env.Image(tags[1]), r.env.Image(tags[2]), id} {
			group.Go(func() {
				err := r.Remove(t.Context(), spec(ref))
				testutil.Assert(t, err == nil, "removal of %s: %v", ref, err)
			})
		}
		group.Wait()
		for _, ref := range append([]string{id}, tags...) {
			left := r.status(t, r.env.Image(ref))
			testutil.Assert(t, left == nil || ref == id, "left under %s: %v", ref, left)
		}
		left := r.status(t, id)
		testutil.Assert(t, left == nil, "left: %v", left)
	}
}

func TestRigConcurrentPulls(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	r.push(t, fresh(t, 12*rigenv.SlowPiece, v1.Config{}), ref)
	full := r.env.Image(rigenv.PrefixSlow + "/" + ref)
	gone, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		_, err := r.Pull(gone, spec(full), nil)
		testutil.Assert(t, errors.Is(err, context.Canceled), "the caller that left got %v", err)
	})
	for range 3 {
		group.Go(func() {
			_, err := r.Pull(t.Context(), spec(full), nil)
			testutil.Assert(t, err == nil, "a caller that stayed got %v", err)
		})
	}
	time.Sleep(rigenv.SlowPause)
	leave()
	group.Wait()
}

func TestRigBuiltInSandboxImage(t *testing.T) {
	r := newRig(t, image.Options{})
	ref, err := r.EnsureSandboxImage(t.Context())
	testutil.Must(t, err)
	features, err := r.engine.Features(t.Context())
	testutil.Must(t, err)
	want, err := pause.ConfigDigest(features.Arch)
	if features.ContainerdImageStore {
		want, err = pause.ManifestDigest(features.Arch)
	}
	testutil.Must(t, err)
	img := r.status(t, ref)
	testutil.Assert(t, img.GetId() == want && img.GetPinned(), "got %v, want id %s, pinned", img, want)
	testutil.Fails(t, r.Remove(t.Context(), spec(want)), errdefs.IsFailedPrecondition, "removal")
	again, err := r.ReloadSandboxImage(t.Context())
	testutil.Assert(t, err == nil && again == ref && r.status(t, ref).GetId() == want, "reloaded as %s, %v", again, err)
}

func TestRigFsInfo(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	const layer = 4 << 20
	r.push(t, fresh(t, layer, v1.Config{}), ref)
	r.pull(t, r.env.Image(ref))
	var images []*runtimeapi.FilesystemUsage
	testutil.Eventually(t, func() error { // until the first measurement is over
		info, err := r.FsInfo(t.Context())
		testutil.Must(t, err)
		images = info.GetImageFilesystems()
		if len(images) != 1 || len(info.GetContainerFilesystems()) != 1 {
			return fmt.Errorf("got %v", info)
		}
		return nil
	})
	got := images[0].GetUsedBytes().GetValue()
	testutil.Assert(t, got >= layer, "all images use %d bytes, this one alone %d", got, layer)
	testutil.Assert(t, strings.HasPrefix(images[0].GetFsId().GetMountpoint(), r.env.DockerRoot),
		"the mountpoint is %s, the engine's root %s", images[0].GetFsId().GetMountpoint(), r.env.DockerRoot)
}
