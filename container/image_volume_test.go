package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// volumes is a fake ImageVolumes. It invents the host paths of images, and counts the mounts that are held.
type volumes struct {
	held, tidied int
	err          error
}

func (v *volumes) Mount(_ context.Context, imageID, subPath string) (string, func(), error) {
	if v.err != nil {
		return "", nil, v.err
	}
	v.held++
	return "/images/" + imageID[len("sha256:"):][:4] + "/" + subPath, func() { v.held-- }, nil
}

func (v *volumes) Tidy() { v.tidied++ }

// newImageNode is a node with two images to mount, on an engine of the given flavor.
func newImageNode(t *testing.T, flavor dockertest.Flavor) (*node, *dockertest.Engine, *volumes) {
	t.Helper()
	n, engine := newNodeOn(t, dockertest.Options{Features: dockertest.DefaultFeatures(flavor)},
		dockertest.Image{Names: []string{"one"}, ID: "sha256:1111" + strings.Repeat("0", 60)},
		dockertest.Image{Names: []string{"two"}, ID: "sha256:2222" + strings.Repeat("0", 60)})
	v := &volumes{}
	n.opts.ImageVolumes = v
	return n, engine, v
}

// imageMounts returns a mount for each argument: "name" is a whole image, "name:part" is a part of it.
func imageMounts(images ...string) []*runtimeapi.Mount {
	var mounts []*runtimeapi.Mount
	for i, image := range images {
		name, part, _ := strings.Cut(image, ":")
		mounts = append(mounts,
			&runtimeapi.Mount{ContainerPath: fmt.Sprint("/", i), Image: &runtimeapi.ImageSpec{Image: name},
				ImageSubPath: part})
	}
	return mounts
}

func TestEngineOrStoreMountsImages(t *testing.T) {
	for _, test := range []struct {
		flavor dockertest.Flavor
		images []string
		want   string // the sources of the mounts; @ marks an image that the engine mounts
	}{
		{dockertest.Docker20, []string{"one", "two:a"}, "/images/1111/ /images/2222/a"},
		{dockertest.Docker29, []string{"one", "two"}, "@sha256:1111 @sha256:2222"},
		{dockertest.Docker29, []string{"one", "two:a/b"}, "@sha256:1111 /images/2222/a/b"},
		{dockertest.Docker29, []string{"one", "two", "one"}, "/images/1111/ @sha256:2222 /images/1111/"},
	} {
		t.Run(fmt.Sprint(test.flavor, test.images), func(t *testing.T) {
			n, engine, v := newImageNode(t, test.flavor)
			config := n.config("sleep", "1000")
			config.Mounts = imageMounts(test.images...)
			id := n.create(n.pod(), config)
			inspect, err := engine.InspectContainer(t.Context(), id)
			testutil.Must(t, err)
			var got []string
			for _, m := range inspect.HostConfig.Mounts {
				testutil.Assert(t, m.ReadOnly, "%+v is writable", m)
				if m.Type == mount.TypeImage {
					m.Source = "@" + m.Source[:len("sha256:1111")]
				}
				got = append(got, m.Source)
			}
			testutil.Assert(t, strings.Join(got, " ") == test.want, "mounts %q, want %q", got, test.want)
			testutil.Assert(t, v.held == 0, "%d images are still held", v.held)
			mounts := n.look(id).Meta.Config.GetMounts()
			testutil.Assert(t, len(mounts) == len(test.images) && mounts[0].GetImage().GetImage() == "one",
				"the configuration shows %v", mounts)
			err = n.Remove(t.Context(), id)
			testutil.Assert(t, err == nil && v.tidied == 1, "Remove: %v, tidied %d times", err, v.tidied)
		})
	}
}

func TestImagesThatCannotBeMounted(t *testing.T) {
	for name, test := range map[string]struct {
		images []string
		err    error
		fault  string
		is     func(error) bool
		text   string
	}{
		"a part is missing": {
			images: []string{"one:x"}, err: fmt.Errorf("no x: %w", errdefs.ErrNotFound),
			text: "ImageVolumeMountFailed: config.mounts[0].image_sub_path: no x",
			is:   func(err error) bool { return errors.Is(err, crierrors.ErrImageVolumeMountFailed) },
		},
		"the disk is full": {
			images: []string{"one"}, err: errors.New("no space"),
			text: "ImageVolumeMountFailed: config.mounts[0].image: no space",
			is:   func(err error) bool { return errors.Is(err, crierrors.ErrImageVolumeMountFailed) },
		},
		"the engine is away": {
			images: []string{"one"}, err: errdefs.ErrUnavailable, text: "config.mounts[0].image: ",
			is: func(err error) bool {
				return errdefs.IsUnavailable(err) && !errors.Is(err, crierrors.ErrImageVolumeMountFailed)
			},
		},
		"an image is missing": {images: []string{"one", "none"}, is: errdefs.IsNotFound,
			text: `config.mounts[1].image.image: pull "none"`},
		"the create fails": {images: []string{"one", "two"}, fault: "CreateContainer", is: errdefs.IsUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine, v := newImageNode(t, dockertest.Docker20)
			v.err = test.err
			pod := n.pod()
			if test.fault != "" {
				defer engine.Inject(test.fault, dockertest.Fault{})()
			}
			config := n.config("sleep", "1000")
			config.Mounts = imageMounts(test.images...)
			_, err := n.Create(t.Context(), pod, config, nil)
			testutil.Assert(t, err != nil && test.is(err) && strings.HasPrefix(err.Error(), test.text),
				"%v, want %q", err, test.text)
			testutil.Assert(t, v.held == 0, "%d images are still held", v.held)
		})
	}
	n, _, _ := newImageNode(t, dockertest.Docker20)
	n.opts.ImageVolumes = nil
	config := n.config("sleep", "1000")
	config.Mounts = imageMounts("one")
	_, err := n.Create(t.Context(), n.pod(), config, nil)
	testutil.Fails(t, err, errdefs.IsNotImplemented, "without a place for files")
}

// limiting is a plugin that limits each new container.
type limiting struct{ withoutPlugins }

func (limiting) CreateContainer(
	context.Context, *state.Pod, *state.Container,
) (*ocinote.Adjustment, *runtimeapi.LinuxContainerResources, error) {
	return nil, &runtimeapi.LinuxContainerResources{CpuShares: 512}, nil
}

// TestLimitsOfPluginsKeepImageRefs: the status has the limits and the reference of the mounted image.
func TestLimitsOfPluginsKeepImageRefs(t *testing.T) {
	n, _, _ := newImageNode(t, dockertest.Docker20)
	n.opts.Plugins = limiting{}
	config := n.config("sleep", "1000")
	config.Mounts = imageMounts("one")
	c := n.look(n.create(n.pod(), config))
	ref := c.Meta.Config.GetMounts()[0].GetImage().GetImageRef()
	testutil.Assert(t, strings.HasPrefix(ref, "one@sha256:"), "image_ref is %q", ref)
	testutil.Equal(t, c.Status.Resources.GetLinux().GetCpuShares(), int64(512), "the shares")
	testutil.Equal(t, config.GetMounts()[0].GetImage().GetImageRef(), "", "image_ref in the request")
}
