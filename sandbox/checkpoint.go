package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// The files of a pod's checkpoint: the pod's configuration, the names of its containers, and a directory for each. The
// first two have the names that Podman and checkpointctl give them.
const (
	podDumpFile    = "pod.dump"
	podOptionsFile = "pod.options"
	dumpFileMode   = 0o600
)

// podOptions is pod.options.
type podOptions struct {
	Version    int      `json:"version"`
	Containers []string `json:"containers"`
}

// podOptionsVersion is the only version of podOptions that this program writes and reads.
const podOptionsVersion = 1

// Checkpoint writes containers of a ready pod into an empty directory, all at one moment (CRI CheckpointPod). The
// containers keep running, even after an error. If the engine cannot checkpoint, Checkpoint fails with
// ErrFailedPrecondition and says what is missing. After an error the directory is empty again. Two calls with one
// directory run one after the other.
func (s *Service) Checkpoint(ctx context.Context, id, dir string, containerIDs []string) (err error) {
	if err := docker.CheckCheckpoint(ctx, s.opts.Engine); err != nil {
		return err
	}
	// A call that waited for the lock finds the checkpoint of an earlier call, and must not remove that checkpoint.
	unlock, err := s.checkpoints.Lock(ctx, filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkEmpty(dir); err != nil {
		return err
	}
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if err != nil {
		return err
	}
	if pod.Status.State() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return fmt.Errorf("pod sandbox %s is not ready, it cannot be checkpointed: %w", pod.ID,
			errdefs.ErrFailedPrecondition)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIn(dir))
		}
	}()
	if err := s.opts.Containers.CheckpointAll(ctx, pod.ID, containerIDs, dir); err != nil {
		return err
	}
	return s.describePod(pod, containerIDs, dir)
}

// describePod writes the pod's configuration and the names of the checkpointed containers.
func (s *Service) describePod(pod *state.Pod, containerIDs []string, dir string) error {
	options := podOptions{Version: podOptionsVersion}
	for _, id := range containerIDs {
		c, err := s.opts.Cache.Snapshot().Container(id)
		if err != nil {
			return err
		}
		options.Containers = append(options.Containers, c.Meta.Config.GetMetadata().GetName())
	}
	slices.Sort(options.Containers)
	encoded, err := json.Marshal(options)
	if err != nil {
		return err
	}
	config, err := protojson.Marshal(pod.Meta.Config)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, podDumpFile), config, dumpFileMode); err != nil {
		return err
	}
	// This file comes last: it shows that the checkpoint is complete.
	return os.WriteFile(filepath.Join(dir, podOptionsFile), encoded, dumpFileMode)
}

// badPaths are the errors of a path that cannot be a directory. Other errors, such as EIO, do not blame the request.
var badPaths = []error{unix.ENOENT, unix.ENOTDIR, unix.ENAMETOOLONG, unix.ELOOP, unix.EINVAL}

// checkEmpty fails unless dir is the absolute path of an empty directory. The error is an ErrInvalidArgument if the
// client must name another path.
func checkEmpty(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("output_path: %q is not an absolute path: %w", dir, errdefs.ErrInvalidArgument)
	}
	entries, err := os.ReadDir(dir)
	if slices.ContainsFunc(badPaths, func(bad error) bool { return errors.Is(err, bad) }) {
		return fmt.Errorf("output_path: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	if err != nil {
		return fmt.Errorf("output_path: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("output_path: %s is not empty: %w", dir, errdefs.ErrInvalidArgument)
	}
	return nil
}

// removeIn removes all that is in a directory.
func removeIn(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}

// Restore makes a pod from a checkpoint (CRI RestorePod). Its containers are CREATED, and continue at the checkpoint
// when they are started. Restore returns the pod's id, and the containers' ids by name. configs must name exactly the
// containers of the checkpoint. After an error the pod is removed again. If ctx ends before the pod is made, the pod is
// removed later, unless the request is repeated by then. Two calls for one pod run one after the other.
func (s *Service) Restore(
	ctx context.Context, dir string, config *runtimeapi.PodSandboxConfig, handler string,
	configs []*runtimeapi.ContainerConfig,
) (id string, containers map[string]string, err error) {
	if err := docker.CheckCheckpoint(ctx, s.opts.Engine); err != nil {
		return "", nil, err
	}
	if err := checkNames(dir, configs); err != nil {
		return "", nil, err
	}
	if translate.PodUsers(config) != nil {
		return "", nil, fmt.Errorf(
			"config.linux.security_context.namespace_options.userns_options: containers in a user namespace "+
				"cannot be restored: %w", errdefs.ErrFailedPrecondition)
	}
	// A call that waited for the lock finds the pod of an earlier call, and must not remove that pod.
	unlock, err := s.checkpoints.Lock(ctx, translate.SandboxName(config.GetMetadata()))
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	name, run, err := s.begin(ctx, config, handler)
	if err != nil {
		return "", nil, err
	}
	if !s.wait(ctx, name, run) {
		s.group.Go(func() { s.discard(ctx, name, run) })
		return "", nil, fmt.Errorf("pod sandbox %s is still being created and will be removed: %w", name, ctx.Err())
	}
	if id, err = run.id, run.err; err != nil {
		return "", nil, err
	}
	containers = make(map[string]string, len(configs))
	for _, c := range configs {
		name := c.GetMetadata().GetName()
		if containers[name], err = s.opts.Containers.Restore(ctx, id, c, config, filepath.Join(dir, name)); err != nil {
			settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
			defer cancel()
			return "", nil, errors.Join(fmt.Errorf("container_configs of %s: %w", name, err),
				docker.IgnoreNotFound(s.Remove(settle, id)))
		}
	}
	return id, containers, nil
}

// checkNames compares the containers of a checkpoint with the requested ones.
func checkNames(dir string, configs []*runtimeapi.ContainerConfig) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("checkpoint_path: %q is not an absolute path: %w", dir, errdefs.ErrInvalidArgument)
	}
	var options podOptions
	content, err := os.ReadFile(filepath.Join(dir, podOptionsFile))
	if err == nil {
		err = json.Unmarshal(content, &options)
	}
	if err != nil {
		return fmt.Errorf("checkpoint_path: %s is not a checkpoint of a pod: %w: %w", dir, err,
			errdefs.ErrInvalidArgument)
	}
	if options.Version != podOptionsVersion {
		return fmt.Errorf("checkpoint_path: the checkpoint is of version %d, this criadapter reads %d: %w",
			options.Version, podOptionsVersion, errdefs.ErrInvalidArgument)
	}
	asked := map[string]bool{}
	for _, c := range configs {
		asked[c.GetMetadata().GetName()] = true
	}
	names := slices.Sorted(maps.Keys(asked))
	if slices.Sort(options.Containers); len(names) != len(configs) || !slices.Equal(names, options.Containers) {
		return fmt.Errorf("container_configs: the checkpoint has the containers %q, the request has %q: %w",
			options.Containers, names, errdefs.ErrInvalidArgument)
	}
	return nil
}
