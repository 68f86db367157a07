package imagemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/model"
)

// service is an image service in memory. pullable has the errors of pulls, by name.
type service struct {
	internalapi.ImageManagerService
	present  []*runtimeapi.Image
	pullable map[string]error
	pulls    []string
	removed  []string
	lists    int
	// described reports whether ImageStatus finds present images. If not, ImageStatus returns no image, and the error
	// of described. If described is nil, ImageStatus finds them.
	described func() (bool, error)
}

func (s *service) ImageStatus(
	_ context.Context, spec *runtimeapi.ImageSpec, _ bool,
) (*runtimeapi.ImageStatusResponse, error) {
	if s.described != nil {
		if knows, err := s.described(); !knows {
			return &runtimeapi.ImageStatusResponse{}, err
		}
	}
	for _, image := range s.present {
		if image.GetId() == spec.GetImage() || slices.Contains(image.GetRepoTags(), spec.GetImage()) {
			return &runtimeapi.ImageStatusResponse{Image: image}, nil
		}
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

func (s *service) PullImage(
	_ context.Context, spec *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	s.pulls = append(s.pulls, spec.GetImage())
	if err := s.pullable[spec.GetImage()]; err != nil {
		return "", err
	}
	id := "id-" + spec.GetImage()
	s.present = append(s.present, &runtimeapi.Image{Id: id, RepoTags: []string{spec.GetImage()}})
	return id, nil
}

func (s *service) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	s.lists++
	return s.present, nil
}

func (s *service) RemoveImage(_ context.Context, spec *runtimeapi.ImageSpec) error {
	s.removed = append(s.removed, spec.GetImage())
	return nil
}

func (s *service) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems: []*runtimeapi.FilesystemUsage{
			{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}}}}, nil
}

func TestPullPolicies(t *testing.T) {
	for _, test := range []struct {
		policy  v1.PullPolicy
		present bool
		pulls   int
		reason  string
	}{
		{v1.PullAlways, true, 1, ""},
		{v1.PullAlways, false, 1, ""},
		{v1.PullIfNotPresent, true, 0, ""},
		{v1.PullIfNotPresent, false, 1, ""},
		{v1.PullNever, true, 0, ""},
		{v1.PullNever, false, 0, model.ReasonErrImageNeverPull},
	} {
		t.Run(fmt.Sprintf("%s %v", test.policy, test.present), func(t *testing.T) {
			s := &service{}
			if test.present {
				s.present = []*runtimeapi.Image{{Id: "id", RepoTags: []string{"image"}}}
			}
			image, _, err := New(Options{Service: NewImages(s)}).Ensure(t.Context(), request("image", test.policy))
			testutil.Assert(t, len(s.pulls) == test.pulls, "pulled %d times", len(s.pulls))
			var reason *model.ReasonError
			testutil.Assert(t, test.reason == "" && err == nil && image != nil ||
				test.reason != "" && errors.As(err, &reason) && reason.Reason == test.reason, "%v, %v", image, err)
		})
	}
}

func request(image string, policy v1.PullPolicy) Request {
	return Request{
		Pod: &v1.Pod{}, Image: image, Policy: policy, Record: func(string, string) {},
	}
}

// TestImageThatCannotBeInspected: a failed lookup of an image is recorded as an event. An invalid name is not sent to
// the runtime.
func TestImageThatCannotBeInspected(t *testing.T) {
	for name, want := range map[string]string{"no name": model.ReasonInvalidImageName,
		"Upper:1": model.ReasonInvalidImageName, "image": model.ReasonImageInspectError} {
		asked := false
		s := &service{described: func() (bool, error) {
			asked = true
			return false, errors.New("it is away")
		}}
		r, recorded := request(name, v1.PullIfNotPresent), ""
		r.Record = func(reason, message string) { recorded += reason + ": " + message }
		_, _, err := New(Options{Service: NewImages(s)}).Ensure(t.Context(), r)
		var reason *model.ReasonError
		right := errors.As(err, &reason) && reason.Reason == want
		testutil.Assert(t, right && asked == (name == "image"), "%s: %v", name, err)
		testutil.Assert(t, strings.HasPrefix(recorded, "InspectFailed: Failed to inspect image"), "%s: events %q", name,
			recorded)
	}
}

func TestPullBackoffAndReasons(t *testing.T) {
	s := &service{pullable: map[string]error{
		"bad": errors.New("no such thing"), "busy": errors.New("RegistryUnavailable: try later"),
		"fake": errors.New("SignatureValidationFailed: who are you"),
	}}
	p := New(Options{Service: NewImages(s), Backoff: backoff.Options{First: time.Hour}})
	said := map[string]string{} // the last message, by image
	reasonOf := func(image string) (string, time.Duration) {
		_, again, err := p.Ensure(t.Context(), request(image, v1.PullAlways))
		var reason *model.ReasonError
		testutil.Require(t, errors.As(err, &reason), "%s: %v", image, err)
		testutil.Assert(t, !strings.HasPrefix(reason.Err.Error(), reason.Reason),
			"%s has its reason twice: %v", image, reason.Err)
		said[image] = reason.Err.Error()
		return reason.Reason, again
	}
	for image, want := range map[string]string{"bad": model.ReasonErrImagePull, "busy": "RegistryUnavailable",
		"fake": "SignatureValidationFailed"} {
		got, again := reasonOf(image)
		testutil.Assert(t, got == want && again > 0, "%s: %s, again %v", image, got, again)
		if got, again := reasonOf(image); got != model.ReasonImagePullBackOff || again < 59*time.Minute {
			t.Errorf("%s again: %s, again %v", image, got, again)
		}
	}
	testutil.Assert(t, len(s.pulls) == 3, "pulled %v", s.pulls)
	testutil.Equal(t, said["busy"], `Back-off pulling image "busy": RegistryUnavailable: try later`,
		"message in back-off")
	p.Forget("")
	testutil.Equal(t, len(p.failed), 0, "errors of a pod that is gone")
	got, _ := reasonOf("bad")
	testutil.Assert(t, got == model.ReasonErrImagePull, "after it was forgotten: %s", got)
}

// TestEventsOfAPull: the events have the kubelet's texts. Pulling comes before the wait for another pull, and Pulled
// has the time of the wait.
func TestEventsOfAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{present: []*runtimeapi.Image{{Id: "id-image", Size: 4711}}}
		p := New(Options{Service: NewImages(s)})
		free, err := p.slot(t.Context())
		testutil.Must(t, err)
		time.AfterFunc(1500*time.Millisecond, free)
		began := time.Now()
		r, events := request("image", v1.PullAlways), []string{}
		r.Record = func(reason, message string) {
			events = append(events, fmt.Sprintf("%v %s: %s", time.Since(began), reason, message))
		}
		_, _, err = p.Ensure(t.Context(), r)
		testutil.Must(t, err)
		testutil.Equal(t, strings.Join(events, "\n"), `0s Pulling: Pulling image "image"`+"\n"+
			`1.5s Pulled: Successfully pulled image "image" in 0s (1.5s including waiting). Image size: 4711 bytes.`,
			"events")
	})
}

// TestNoBackoffWithoutPull ends the context of a request that waits for another pull. The next request pulls at once.
func TestNoBackoffWithoutPull(t *testing.T) {
	p := New(Options{Service: NewImages(&service{}), Backoff: backoff.Options{First: time.Hour}})
	free, err := p.slot(t.Context())
	testutil.Must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, again, err := p.Ensure(ended, request("image", v1.PullAlways))
	testutil.Assert(t, errors.Is(err, context.Canceled) && again == 0, "without a slot: again %v, %v", again, err)
	free()
	_, _, err = p.Ensure(t.Context(), request("image", v1.PullAlways))
	testutil.Must(t, err)
}

// containers are the containers of a runtime.
type containers []*runtimeapi.Container

func (c containers) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return c, nil
}

// ContainerStatus has an image mount for each annotation.
func (c containers) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	for _, container := range c {
		if container.GetId() != id {
			continue
		}
		out := &runtimeapi.ContainerStatus{Mounts: []*runtimeapi.Mount{{HostPath: "/host"}}}
		for _, image := range container.GetAnnotations() {
			out.Mounts = append(out.Mounts, &runtimeapi.Mount{Image: &runtimeapi.ImageSpec{Image: image}})
		}
		return &runtimeapi.ContainerStatusResponse{Status: out}, nil
	}
	return nil, status.Error(codes.NotFound, "gone")
}

// counted counts the calls of ContainerStatus.
type counted struct {
	containers
	asked int
}

func (c *counted) ContainerStatus(
	ctx context.Context, id string, verbose bool,
) (*runtimeapi.ContainerStatusResponse, error) {
	c.asked++
	return c.containers.ContainerStatus(ctx, id, verbose)
}

// onFullDisk returns options of a collector. Its disk has 100 bytes, and all are used.
func onFullDisk(s *service, used Containers) CollectorOptions {
	return CollectorOptions{
		Images: s, Containers: used, HighPercent: 90, LowPercent: 80,
		Disk: func(string) (uint64, uint64, error) { return 100, 0, nil },
	}
}

// TestMountedImagesAreAskedOnce: a container's mounts never change, so its status is asked for once.
func TestMountedImagesAreAskedOnce(t *testing.T) {
	s := &service{present: []*runtimeapi.Image{{Id: "mounted", Size: 10}}}
	used := &counted{
		containers: containers{{Id: "c", ImageId: "other", Annotations: map[string]string{"volume": "mounted"}}}}
	c := NewCollector(onFullDisk(s, used))
	for range 3 {
		err := c.Collect(t.Context())
		testutil.Assert(t, err != nil, "a full disk without unused images is not an error")
	}
	testutil.Assert(t, used.asked == 1 && len(s.removed) == 0, "asked %d times, removed %v", used.asked, s.removed)
}

// TestImagesOfVolumesStay: an image that is mounted as a volume counts as used.
func TestImagesOfVolumesStay(t *testing.T) {
	s := &service{present: []*runtimeapi.Image{{Id: "mounted", Size: 10}, {Id: "free", Size: 10}}}
	used := containers{{Id: "c", ImageId: "other", Annotations: map[string]string{"volume": "mounted"}}}
	c := NewCollector(onFullDisk(s, used))
	err := c.Collect(t.Context())
	testutil.Assert(t, err != nil, "Collect freed only ten of the twenty bytes above LowPercent, and returned no error")
	testutil.Assert(t, slices.Equal(s.removed, []string{"free"}), "removed %v", s.removed)
}

// TestRemoveUnused: RemoveUnused removes all unused images that are old enough. Images that the first look finds are
// old enough.
func TestRemoveUnused(t *testing.T) {
	s := &service{present: []*runtimeapi.Image{{Id: "used"}, {Id: "earlier"}, {Id: "pinned", Pinned: true}}}
	c := NewCollector(
		CollectorOptions{Images: s, Containers: containers{{ImageId: "used"}}, HighPercent: 100, MinAge: time.Minute})
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	removes := func(when string, want ...string) {
		t.Helper()
		s.removed = nil
		testutil.Must(t, c.RemoveUnused(t.Context()))
		testutil.Assert(t, slices.Equal(s.removed, want), "%s: removed %v, want %v", when, s.removed, want)
	}
	removes("at the first look", "earlier")
	s.present = []*runtimeapi.Image{{Id: "used"}, {Id: "a"}, {Id: "b"}}
	removes("as images are young")
	now = now.Add(time.Hour)
	removes("an hour later", "a", "b")
}

func TestCollect(t *testing.T) {
	s := &service{present: []*runtimeapi.Image{
		{Id: "used", Size: 100, RepoTags: []string{"tag"}}, {Id: "old", Size: 10}, {Id: "newer", Size: 10},
		{Id: "pinned", Size: 10, Pinned: true},
	}}
	used := containers{{ImageRef: "tag"}, {ImageId: "newer"}}
	size, free := uint64(100), uint64(50)
	now := time.Unix(1000, 0)
	var events []string
	c := NewCollector(CollectorOptions{
		Images: s, Containers: &used, HighPercent: 90, LowPercent: 80, MinAge: time.Minute,
		Disk:  func(path string) (uint64, uint64, error) { return size, free, nil },
		Event: func(_ bool, reason, message string) { events = append(events, reason+": "+message) },
	})
	c.now = func() time.Time { return now }
	collect := func(wantErr bool, removed ...string) {
		t.Helper()
		err := c.Collect(t.Context())
		testutil.Assert(t, (err != nil) == wantErr, "%v", err)
		testutil.Assert(t, slices.Equal(s.removed, removed), "removed %v, want %v", s.removed, removed)
		s.removed = nil
	}
	collect(false)
	now = now.Add(time.Hour)
	used = containers{{ImageRef: "tag"}} // newer was used an hour later than old
	collect(false)
	free = 10
	collect(false, "old")
	s.present = slices.DeleteFunc(s.present, func(i *runtimeapi.Image) bool { return i.GetId() == "old" })
	free = 0
	collect(true, "newer") // the freed space is not enough
	testutil.Assert(t, slices.Equal(events, []string{"FreeDiskSpaceFailed: Insufficient free disk space on the " +
		"node's image filesystem (100% of 100 B used). Failed to free sufficient space by deleting unused images " +
		"(freed 10 bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other " +
		"data."}), "events %q", events)
	s.present = []*runtimeapi.Image{{Id: "fresh", Size: 100}}
	collect(true) // too young
	size = 0
	collect(true)
	testutil.Equal(t, events[len(events)-1], "InvalidDiskCapacity: invalid capacity 0 on image filesystem", "event")
	c.opts.HighPercent = 100
	collect(false)
}

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[uint64]string{
		1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB", 100 << 30: "100.0 GiB", 2048 << 40: "2048.0 TiB",
	} {
		testutil.Equal(t, formatSize(bytes), want, "%d bytes", bytes)
	}
}
