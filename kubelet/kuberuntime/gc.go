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
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Collector removes dead containers and sandboxes, and logs of pods that are gone. It stops sandboxes of ended pods.
type Collector struct {
	Runtime *cri.Runtime
	// PodLogsDir is the root of the logs.
	PodLogsDir string
	// Keep is the number of dead attempts that are kept per container of an existing pod.
	Keep int
	// Finished reports whether a pod has ended, so that none of its sandboxes may run. Nil means no.
	Finished func(types.UID) bool
}

// Collect removes dead containers, sandboxes and logs. Exists reports whether a pod is wanted or being ended. All dead
// containers and sandboxes of other pods are removed.
func (c *Collector) Collect(ctx context.Context, exists func(types.UID) bool) error {
	pods, err := c.Runtime.Attempts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for uid, pod := range pods {
		// All sandboxes in the list are from before this check, so they belong to the run that has ended.
		if c.Finished != nil && c.Finished(uid) {
			errs = append(errs, c.stopLate(ctx, pod))
		}
		keep := 0
		if exists(uid) {
			keep = c.Keep
		}
		errs = append(errs, c.containers(ctx, pod, keep), c.sandboxes(ctx, pod, exists(uid)))
	}
	errs = append(errs, c.logs(pods, exists))
	return errors.Join(errs...)
}

// containers removes dead attempts, but keeps the newest ones of each name. A created attempt of an existing pod may be
// about to start, so it counts as dead only if there is a newer one.
func (c *Collector) containers(ctx context.Context, pod *model.PodStatus, keep int) error {
	var errs []error
	attempts := map[string]int{} // kept dead attempts, by name
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

// remove removes a container and its log. Only ContainerStatus has the log's path.
func (c *Collector) remove(ctx context.Context, id string) error {
	answer, err := c.Runtime.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("status of container %s: %w", id, err)
	}
	if err := c.Runtime.RemoveContainer(ctx, id); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return removeLog(answer.GetStatus().GetLogPath())
}

// removeLog removes a container's log and its rotated logs.
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

// sandboxes removes sandboxes that are not ready. If the pod exists, its sandboxes with containers stay. Its newest
// sandbox stays, too: the next sandbox takes its attempt number from the newest one.
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
		errs = append(errs, removeSandbox(ctx, c.Runtime, sandbox.ID))
	}
	return errors.Join(errs...)
}

// stopLate stops the ready sandboxes of a pod that has ended. A runtime may finish a RunPodSandbox that the pod's end
// cancelled. The pod's worker did not see such a sandbox, which keeps an address. A later collection removes it.
func (c *Collector) stopLate(ctx context.Context, pod *model.PodStatus) error {
	var errs []error
	for _, sandbox := range pod.Sandboxes {
		if sandbox.Ready {
			errs = append(errs, stopSandbox(ctx, c.Runtime, sandbox.ID))
		}
	}
	return errors.Join(errs...)
}

// removeSandbox stops and removes a sandbox. A sandbox that was never stopped keeps its address. A sandbox that is gone
// counts as removed.
func removeSandbox(ctx context.Context, runtime *cri.Runtime, id string) error {
	if err := stopSandbox(ctx, runtime, id); err != nil {
		return err
	}
	if err := runtime.RemovePodSandbox(ctx, id); err != nil && !crierrors.IsNotFound(err) {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// logs removes the log directories of pods that are gone, if markLogs marked them for this kubelet.
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

// RemoveLogs removes the log directories of all pods of an owner, and the root of the logs if it is empty then.
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
	if err := os.Remove(root); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) { // a mount point
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// markLogs makes a pod's log directory and marks its owner. Log collectors that run as other users may read the
// directory.
func markLogs(dir, owner string) error {
	if dir == "" || ours(dir, owner) { // on a full disk, another write would empty the file
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(owner), 0o644)
	if err != nil {
		// Collector and RemoveLogs would leave a directory without its mark.
		_ = os.Remove(filepath.Join(dir, ownerFile))
		_ = os.Remove(dir) // fails if the directory has logs
	}
	return err
}
