package imagemanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Containers lists the containers of all owners in a runtime, because an image that any of them uses stays.
type Containers interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	// ContainerStatus has the images that a container mounts; the list does not have them.
	ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

// CollectorOptions configure a Collector. Images and Containers are required.
type CollectorOptions struct {
	Images     internalapi.ImageManagerService
	Containers Containers
	// When HighPercent of the disk is in use, the longest unused images are removed, until only LowPercent is in use.
	// With a HighPercent of 100 or more, Collect removes none.
	HighPercent, LowPercent int
	// MinAge is how long an image must have been present before it is removed. Images that the first look finds count
	// as old. Their age is unknown, and a node that starts with a full disk needs the space.
	MinAge time.Duration
	// Pulled are the images that may be removed; nil means all.
	Pulled *Pulled
	// Access forgets images that are gone. It may be nil.
	Access *Access
	// Event records an event of the node. Nil records none.
	Event func(warning bool, reason, message string)
	// Disk returns size and free space of the file system at a path, in bytes. Nil calls statfs.
	Disk func(path string) (size, free uint64, err error)
}

// Collector removes unused images when the disk is full. It is safe for concurrent use.
type Collector struct {
	opts CollectorOptions
	now  func() time.Time

	mu    sync.Mutex
	known map[string]record // nil before the first look
	// mounted are the images that each container mounts, by the container's id. A container's mounts never change.
	mounted map[string][]string
}

// record has the times when an image was first present and last used. A zero time is unknown.
type record struct {
	first, used time.Time
}

// NewCollector makes a collector that has observed no image.
func NewCollector(opts CollectorOptions) *Collector {
	if opts.Disk == nil {
		opts.Disk = statfs
	}
	if opts.Event == nil {
		opts.Event = func(bool, string, string) {}
	}
	return &Collector{opts: opts, now: time.Now}
}

func statfs(path string) (size, free uint64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	block := uint64(fs.Frsize)
	return fs.Blocks * block, fs.Bavail * block, nil
}

// Collect records which images are used, and removes unused ones if the disk is too full. It returns an error if the
// removal does not free enough.
func (c *Collector) Collect(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	unused, err := c.look(ctx)
	if err != nil {
		return err
	}
	if c.opts.HighPercent >= 100 {
		return nil
	}
	excess, use, err := c.excess(ctx)
	if err != nil || excess == 0 {
		return err
	}
	freed, err := c.free(ctx, unused, excess)
	if err != nil || freed >= excess {
		return err
	}
	// As in the kubelet, the event here and the event ImageGCFailed have the same text.
	text := fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%s used). Failed to free "+
		"sufficient space by deleting unused images (freed %d bytes). Investigate disk usage, as it could be used by "+
		"active images, logs, volumes, or other data.", use, freed)
	c.opts.Event(true, "FreeDiskSpaceFailed", text)
	return errors.New(text)
}

// RemoveUnused removes all unused images that are old enough.
func (c *Collector) RemoveUnused(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	unused, err := c.look(ctx)
	if err != nil {
		return err
	}
	_, err = c.free(ctx, unused, math.MaxUint64)
	return err
}

// look records the used images, and returns the unused ones that may be removed, the longest unused first. The caller
// holds mu.
func (c *Collector) look(ctx context.Context) ([]*runtimeapi.Image, error) {
	listed := time.Now()
	all, err := c.opts.Images.ListImages(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	containers, err := c.opts.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used, err := c.used(ctx, containers)
	if err != nil {
		return nil, err
	}
	now, detected := c.now(), time.Time{}
	if c.known != nil {
		detected = now
	}
	present := map[string]record{}
	var unused []*runtimeapi.Image
	for _, image := range all {
		r, ok := c.known[image.GetId()]
		if !ok {
			r.first = detected
		}
		if inUse(image, used) {
			r.used = now
		} else if !image.GetPinned() && (c.opts.Pulled == nil || c.opts.Pulled.has(image.GetId())) {
			unused = append(unused, image)
		}
		present[image.GetId()] = r
	}
	c.known = present
	if err := c.keep(present, listed); err != nil {
		return nil, err
	}
	slices.SortStableFunc(unused, func(a, b *runtimeapi.Image) int {
		ra, rb := present[a.GetId()], present[b.GetId()]
		return cmp.Or(ra.used.Compare(rb.used), ra.first.Compare(rb.first))
	})
	return unused, nil
}

// keep forgets the records of images that are gone, unless the records are newer than the list.
func (c *Collector) keep(present map[string]record, listed time.Time) error {
	is := func(id string) bool {
		_, ok := present[id]
		return ok
	}
	var errs []error
	if c.opts.Pulled != nil {
		errs = append(errs, c.opts.Pulled.keep(is, listed))
	}
	if c.opts.Access != nil {
		errs = append(errs, c.opts.Access.keep(is, listed))
	}
	return errors.Join(errs...)
}

// used returns the names of all images that the containers run or mount. The caller holds mu.
func (c *Collector) used(ctx context.Context, containers []*runtimeapi.Container) (map[string]bool, error) {
	used, mounted := map[string]bool{}, map[string][]string{}
	for _, container := range containers {
		used[container.GetImageId()], used[container.GetImageRef()], used[container.GetImage().
			GetImage()] = true, true, true
		id := container.GetId()
		images, known := c.mounted[id]
		if !known {
			var err error
			if images, err = c.mounts(ctx, id); err != nil {
				return nil, fmt.Errorf("images mounted by container %s: %w", id, err)
			}
		}
		mounted[id] = images
		for _, image := range images {
			used[image] = true
		}
	}
	c.mounted = mounted
	return used, nil
}

// mounts returns the images that a container mounts. A removed container mounts none.
func (c *Collector) mounts(ctx context.Context, id string) ([]string, error) {
	answer, err := c.opts.Containers.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var images []string
	for _, mount := range answer.GetStatus().GetMounts() {
		if image := mount.GetImage().GetImage(); image != "" {
			images = append(images, image)
		}
	}
	return images, nil
}

func inUse(image *runtimeapi.Image, used map[string]bool) bool {
	names := slices.Concat([]string{image.GetId()}, image.GetRepoTags(), image.GetRepoDigests())
	return slices.ContainsFunc(names, func(name string) bool { return used[name] })
}

// excess returns the number of bytes to free, and the used part of the disk as text. The caller holds mu.
func (c *Collector) excess(ctx context.Context) (bytes uint64, use string, err error) {
	info, err := c.opts.Images.ImageFsInfo(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("image file system: %w", err)
	}
	if len(info.GetImageFilesystems()) == 0 {
		return 0, "", errors.New("the runtime does not report the directory of its images")
	}
	size, free, err := c.opts.Disk(info.GetImageFilesystems()[0].GetFsId().GetMountpoint())
	if err != nil {
		return 0, "", err
	}
	if size == 0 {
		err := errors.New("invalid capacity 0 on image filesystem") // the kubelet's text
		c.opts.Event(true, "InvalidDiskCapacity", err.Error())
		return 0, "", err
	}
	free = min(free, size)
	used := 100 - int(free*100/size)
	if used < c.opts.HighPercent {
		return 0, "", nil
	}
	wanted := size * uint64(100-c.opts.LowPercent) / 100
	if wanted <= free {
		return 0, "", nil
	}
	return wanted - free, fmt.Sprintf("%d%% of %s", used, formatSize(size)), nil
}

// formatSize formats a number of bytes like the kubelet's messages.
func formatSize(bytes uint64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	return units.CustomSize("%.1f %s", float64(bytes), 1<<10, []string{"B", "KiB", "MiB", "GiB", "TiB"})
}

// free removes images until excess bytes are freed, or none is left. The caller holds mu.
func (c *Collector) free(ctx context.Context, unused []*runtimeapi.Image, excess uint64) (freed uint64, err error) {
	var errs []error
	for _, image := range unused {
		if freed >= excess {
			break
		}
		if c.now().Sub(c.known[image.GetId()].first) < c.opts.MinAge {
			continue
		}
		if err := c.opts.Images.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: image.GetId()}); err != nil {
			errs = append(errs, fmt.Errorf("remove image %s: %w", image.GetId(), err))
			continue
		}
		delete(c.known, image.GetId())
		freed += image.GetSize()
	}
	return freed, errors.Join(errs...)
}
