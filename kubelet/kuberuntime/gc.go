package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Collector removes dead containers and sandboxes, and logs of pods that are gone.
type Collector struct {
	// Runtime is what to collect from.
	Runtime *cri.Runtime
	// PodLogsDir is the root of the logs.
	PodLogsDir string
	// Keep is how many dead attempts of each container of a pod that exists are kept.
	Keep int
}

// Collect removes what is dead. Exists says of a pod that it is still wanted or being ended; of one that is not,
// nothing is kept.
func (c *Collector) Collect(ctx context.Context, exists func(types.UID) bool) error {
	pods, err := c.Runtime.Attempts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for uid, pod := range pods {
		keep := 0
		if exists(uid) {
			keep = c.Keep
		}
		errs = append(errs, c.containers(ctx, pod, keep), c.sandboxes(ctx, pod, exists(uid)))
	}
	errs = append(errs, c.logs(pods, exists))
	return errors.Join(errs...)
}

// containers removes dead attempts but the newest ones of each name. An attempt that was made and not started may be
// about to be: it counts as dead only if there is a newer one.
func (c *Collector) containers(ctx context.Context, pod *model.PodStatus, keep int) error {
	var errs []error
	attempts := map[string]int{} // dead ones by name
	newer := map[string]bool{}
	for _, container := range pod.Containers { // newest first
		dead := container.State == model.StateExited || container.State == model.StateUnknown ||
			container.State == model.StateCreated && (newer[container.Name] || keep == 0)
		newer[container.Name] = true
		if !dead {
			continue
		}
		if attempts[container.Name]++; attempts[container.Name] <= keep {
			continue
		}
		errs = append(errs, c.remove(ctx, container.ID))
	}
	return errors.Join(errs...)
}

// remove removes a container with its log, whose path no list has.
func (c *Collector) remove(ctx context.Context, id string) error {
	answer, err := c.Runtime.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log of container %s: %w", id, err)
	}
	if err := c.Runtime.RemoveContainer(ctx, id); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return removeLog(answer.GetStatus().GetLogPath())
}

// removeLog removes a container's log with what rotation made of it.
func removeLog(path string) error {
	if path == "" {
		return nil
	}
	rotated, err := filepath.Glob(path + ".*")
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range append(rotated, path) {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sandboxes removes those that are not ready and hold no container, but the newest of a pod that exists: it has the
// next attempt's number.
func (c *Collector) sandboxes(ctx context.Context, pod *model.PodStatus, exists bool) error {
	full := map[string]bool{}
	if exists {
		for _, container := range pod.Containers {
			full[container.SandboxID] = true
		}
	}
	var errs []error
	for i, sandbox := range pod.Sandboxes {
		if sandbox.Ready || full[sandbox.ID] || exists && i == 0 {
			continue
		}
		// One that was never stopped still has its address.
		if err := c.Runtime.StopPodSandbox(ctx, sandbox.ID); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox %s: %w", sandbox.ID, err))
			continue
		}
		if err := c.Runtime.RemovePodSandbox(ctx, sandbox.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", sandbox.ID, err))
		}
	}
	return errors.Join(errs...)
}

// logs removes the log directories of pods of this kubelet that are gone: those that it marked as its own.
func (c *Collector) logs(pods map[types.UID]*model.PodStatus, exists func(types.UID) bool) error {
	entries, err := os.ReadDir(c.PodLogsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		uid := types.UID(entry.Name()[strings.LastIndex(entry.Name(), "_")+1:])
		if pods[uid] != nil || exists(uid) || !ours(filepath.Join(c.PodLogsDir, entry.Name()), c.Runtime.Owner()) {
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(c.PodLogsDir, entry.Name())))
	}
	return errors.Join(errs...)
}

// ownerFile marks a log directory with the kubelet that made it: other kubelets may use the same root.
const ownerFile = ".owner"

func ours(dir, owner string) bool {
	noted, err := os.ReadFile(filepath.Join(dir, ownerFile))
	return err == nil && string(noted) == owner
}

// RemoveLogs removes the log directories of all pods of an owner, and the root of the logs if nothing else is in it.
func RemoveLogs(root, owner string) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		if dir := filepath.Join(root, entry.Name()); ours(dir, owner) {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	if err := os.Remove(root); !errors.Is(err, syscall.ENOTEMPTY) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// markLogs makes a pod's log directory, which other users may enter, as log collectors do, and marks it.
func markLogs(dir, owner string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ownerFile), []byte(owner), 0o644)
}
