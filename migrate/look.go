package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/bounded"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/logs"
)

const (
	// maxLooks is the number of pods that are read concurrently.
	maxLooks = 8
	// memberPatience is how long the engine may take to describe a container of a pod.
	memberPatience = 10 * time.Second
	// maxFile is the largest size of a checkpoint or resolv.conf, in bytes.
	maxFile = 1 << 20
	// shimDir is the directory of checkpoints below the root directories of cri-dockerd and dockershim.
	shimDir = "sandbox"
	// idLength is the length of a full container id.
	idLength = 64
)

func (n *Node) list(ctx context.Context) ([]container.Summary, error) {
	return n.opts.Engine.ListContainers(ctx, map[string]string{translate.LabelKind: ""})
}

// plan reads the pods in ids, the result of unmigrated, and plans their migration.
func (n *Node) plan(ctx context.Context, ids map[string][]string) (*Plan, error) {
	pods, errs := make([]*podPlan, len(ids)), make([]error, len(ids))
	sorted := slices.Sorted(maps.Keys(ids))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxLooks)
	for i, id := range sorted {
		group.Go(func() (err error) {
			pods[i], err = n.planPod(groupCtx, id, ids[id])
			if err == nil || groupCtx.Err() != nil || errdefs.IsUnavailable(err) {
				return err
			}
			errs[i] = err // a container that the engine cannot describe must not hide the other pods
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	plan := &Plan{pods: slices.DeleteFunc(pods, func(p *podPlan) bool { return p == nil })}
	slices.SortStableFunc(plan.pods, func(a, b *podPlan) int { return cmp.Compare(a.name, b.name) })
	for i, id := range sorted {
		if errs[i] != nil {
			plan.left = append(plan.left, leftOut{id, errs[i]})
		}
	}
	n.grant(plan)
	return plan, nil
}

// unmigrated returns the sandboxes to migrate, each with the containers that another shim created.
func (n *Node) unmigrated(ctx context.Context, list []container.Summary) (map[string][]string, error) {
	known, wanted, foreign := map[string]bool{}, map[string]bool{}, map[string][]string{}
	for _, c := range list {
		kind := translate.KindOf(c)
		if kind == translate.KindSandbox {
			known[c.ID] = true
		}
		if kind == translate.KindNone || translate.MadeByUs(c.Labels) {
			continue
		}
		sandbox := c.ID
		if kind == translate.KindContainer {
			sandbox = c.Labels[translate.LabelSandboxID]
			foreign[sandbox] = append(foreign[sandbox], c.ID)
		}
		wanted[sandbox] = wanted[sandbox] || !n.settled(ctx, sandbox, c, kind)
	}
	if err := n.addLost(ctx, known, wanted); err != nil {
		return nil, err
	}
	ids := map[string][]string{}
	for id, w := range wanted {
		if w {
			ids[id] = foreign[id]
		}
	}
	return ids, nil
}

// unrecorded reports whether any sandbox in a list is of another shim, runs, and has no record.
func (n *Node) unrecorded(ctx context.Context, list []container.Summary) bool {
	return slices.ContainsFunc(list, func(c container.Summary) bool {
		if c.State != container.StateRunning || translate.KindOf(c) != translate.KindSandbox ||
			translate.MadeByUs(c.Labels) {
			return false
		}
		_, err := n.opts.Store.Load(ctx, c.ID)
		return errdefs.IsNotFound(err)
	})
}

// settled reports whether a container of another shim needs no migration: its pod's record has the container, and its
// log is not a link or may stay one. A container of a pod whose record cannot be read also counts as settled.
func (n *Node) settled(ctx context.Context, sandboxID string, c container.Summary, kind translate.Kind) bool {
	record, err := n.opts.Store.Load(ctx, sandboxID)
	if err != nil && !errdefs.IsNotFound(err) {
		record, err = n.opts.Store.Load(ctx, sandboxID) // the first Load has quarantined a corrupt record
	}
	switch {
	case errdefs.IsNotFound(err):
		return false
	case err != nil: // a newer program's record, or a damaged label
		log.G(ctx).WithError(err).WithField("podSandboxID", sandboxID).
			Warn("cannot read checkpoint of pod of cri-dockerd")
		return true
	case kind == translate.KindSandbox:
		return true
	}
	if _, ok := record.Containers[c.ID]; !ok {
		return false
	}
	if n.opts.KeepLinks || c.State != container.StateRunning {
		return true
	}
	info, err := os.Lstat(translate.LogPath(c.Labels))
	return err != nil || info.Mode()&fs.ModeSymlink == 0
}

// addLost adds the pods that have a checkpoint of another shim but no sandbox container.
func (n *Node) addLost(ctx context.Context, known, wanted map[string]bool) error {
	for _, root := range n.opts.RootDirectories {
		entries, err := os.ReadDir(filepath.Join(root, shimDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the checkpoints of cri-dockerd: %w", err)
		}
		for _, entry := range entries {
			id := entry.Name()
			if len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" || known[id] {
				continue
			}
			if _, err := n.opts.Store.Load(ctx, id); errdefs.IsNotFound(err) {
				wanted[id] = true
			}
		}
	}
	return nil
}

// planPod plans the migration of one pod. It returns nil if the pod is gone.
func (n *Node) planPod(ctx context.Context, id string, containers []string) (*podPlan, error) {
	s, err := n.look(ctx, id, containers)
	if err != nil {
		return nil, err
	}
	if s.sandbox == nil && s.record == nil && s.shim == nil {
		if s.shimErr != nil {
			log.G(ctx).WithError(s.shimErr).WithField("podSandboxID", id).
				Warn("passing over damaged checkpoint of cri-dockerd for a pod that is gone")
		}
		return nil, nil
	}
	return s.plan(n.opts.netnsDir, n.opts.KeepLinks)
}

func (n *Node) look(ctx context.Context, id string, containers []string) (*seen, error) {
	features, err := n.opts.Engine.Features(ctx)
	if err != nil {
		return nil, err
	}
	s := &seen{id: id, defaultRuntime: features.DefaultRuntime}
	if s.sandbox, err = n.inspect(ctx, id); err != nil {
		return nil, err
	}
	record, err := n.opts.Store.Load(ctx, id)
	if err == nil {
		s.record = &record
	} else if !errdefs.IsNotFound(err) {
		return nil, err
	}
	for _, containerID := range containers {
		inspect, err := n.inspectMember(ctx, containerID)
		if err != nil {
			return nil, err
		}
		if inspect != nil {
			s.containers = append(s.containers, lookAtLog(ctx, inspect))
		}
	}
	if s.record == nil {
		s.shim, s.shimErr = n.readCheckpoint(id)
		n.lookAtNetwork(ctx, s)
	}
	return s, nil
}

// inspect returns nil if the container is gone.
func (n *Node) inspect(ctx context.Context, id string) (*container.InspectResponse, error) {
	inspect, err := n.opts.Engine.InspectContainer(ctx, id)
	if err != nil {
		return nil, docker.IgnoreNotFound(err)
	}
	if inspect.Config == nil || inspect.State == nil {
		return nil, fmt.Errorf("the engine does not describe container %s: %w", id, errdefs.ErrUnavailable)
	}
	return inspect, nil
}

// inspectMember is inspect for a container of a pod. It also returns nil if the engine cannot describe the container
// within memberPatience. The pod is migrated without that container, because the kubelet would replace a pod without a
// record. A container without a record is still identified by its labels.
func (n *Node) inspectMember(ctx context.Context, id string) (*container.InspectResponse, error) {
	bounded, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	inspect, err := n.inspect(bounded, id)
	if err == nil || ctx.Err() != nil || bounded.Err() == nil && errdefs.IsUnavailable(err) {
		return inspect, err
	}
	log.G(ctx).WithError(err).WithField("containerID", id).Warn("passing over container that cannot be inspected")
	return nil, nil
}

// lookAtLog reads the size of a log that is a link to the engine's file. If the size is unknown, the log stays a link,
// because the disk may have no room for the converted log. The next start tries again.
func lookAtLog(ctx context.Context, inspect *container.InspectResponse) seenContainer {
	c := seenContainer{inspect: inspect}
	path := translate.LogPath(inspect.Config.Labels)
	if path == "" || inspect.LogPath == "" || !logs.LinkedTo(inspect.LogPath, path) {
		return c
	}
	kept, err := logs.EngineHistory(inspect.LogPath)
	if err != nil {
		log.G(ctx).WithError(err).WithField("container", containerName(inspect)).
			Warn("container log stays a link to the engine's file")
		return c
	}
	c.linked, c.kept = true, kept
	return c
}

// lookAtNetwork reads the pod's CNI cache entry and resolv.conf, and the addresses in a running pod's namespace.
func (n *Node) lookAtNetwork(ctx context.Context, s *seen) {
	attachment, err := cni.FindAttachment(n.caches(), s.id)
	if err != nil {
		log.G(ctx).WithError(err).Warn("cannot read CNI cache of cri-dockerd")
	}
	s.attachment = attachment
	if s.sandbox == nil {
		return
	}
	if content, err := readBounded(s.sandbox.ResolvConfPath); err == nil {
		s.resolvConf = string(content)
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.resolvErr = err
	}
	if s.networkMode() == networkCNI && isRunning(s.sandbox) {
		s.addresses, s.addressErr = netns.Open(fmt.Sprintf("/proc/%d/ns/net", s.sandbox.State.Pid)).PodAddresses(ctx)
	}
}

// caches returns libcni's cache directories that may have entries. It includes criadapter's own cache, because
// cri-dockerd may have been started with a flag that names the same directory.
func (n *Node) caches() []string { return append([]string{n.opts.CNICacheDir}, n.opts.CNICacheDirs...) }

// readCheckpoint returns nil and no error if no shim has a checkpoint of the pod.
func (n *Node) readCheckpoint(id string) (*shimCheckpoint, error) {
	for _, root := range n.opts.RootDirectories {
		content, err := readBounded(filepath.Join(root, shimDir, id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return parseCheckpoint(content)
	}
	return nil, nil
}

// readBounded reads a file of at most maxFile bytes, and fails for a longer one.
func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	return bounded.ReadAll(file, path, maxFile)
}

// grant bounds the log history to convert, by the free space of each file system. It leaves out a pod whose log
// directory is gone or cannot be read, so that this pod does not hide the others.
func (n *Node) grant(plan *Plan) {
	spaces, on := map[uint64]space{}, map[uint64][]*logPlan{}
	plan.pods = slices.DeleteFunc(plan.pods, func(pod *podPlan) bool {
		devices := make([]uint64, len(pod.logs))
		for i, l := range pod.logs {
			var err error
			if devices[i], err = look(filepath.Dir(l.path), spaces); err != nil {
				plan.left = append(plan.left, leftOut{pod.id, err})
				return true
			}
		}
		for i, l := range pod.logs {
			on[devices[i]] = append(on[devices[i]], l)
		}
		return false
	})
	for device, of := range on {
		spaces[device].grant(of, n.opts.LogHistory)
	}
}

// look adds the file system of a directory to spaces and returns its device.
func look(dir string, spaces map[uint64]space) (device uint64, err error) {
	var where unix.Stat_t
	var room unix.Statfs_t
	if err := errors.Join(unix.Stat(dir, &where), unix.Statfs(dir, &room)); err != nil {
		return 0, fmt.Errorf("looking for free space in %s: %w", dir, err)
	}
	spaces[where.Dev] = space{total: int64(room.Blocks) * room.Frsize, free: int64(room.Bavail) * room.Frsize}
	return where.Dev, nil
}
