package state

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker/translate"
)

// owner returns the root directory of the other criadapter that an engine container belongs to, empty for ours. A pod
// with a checkpoint is ours even if its mark names another root directory, because the directory may have been moved.
func (c *Cache) owner(ctx context.Context, id, name string, labels map[string]string) string {
	other := translate.OtherRootDirectory(name, labels, c.opts.RootDirectory)
	if other == "" {
		return ""
	}
	sandboxID := cmp.Or(labels[translate.LabelSandboxID], id)
	if _, err := c.opts.Records.Load(ctx, sandboxID); !errdefs.IsNotFound(err) {
		return ""
	}
	return other
}

// leaveOthers removes the containers of other criadapters from a list. The first call logs the number of their pods. A
// pod without a sandbox container counts if it has any container.
func (c *Cache) leaveOthers(ctx context.Context, list []container.Summary) []container.Summary {
	pods := map[string]string{} // root directories by the ids of sandboxes
	ours := slices.DeleteFunc(list, func(summary container.Summary) bool {
		for _, name := range summary.Names {
			if owner := c.owner(ctx, summary.ID, name, summary.Labels); owner != "" {
				pods[cmp.Or(summary.Labels[translate.LabelSandboxID], summary.ID)] = owner
				return true
			}
		}
		return false
	})
	c.othersLogged.Do(func() { logOthers(ctx, pods) })
	return ours
}

func logOthers(ctx context.Context, pods map[string]string) {
	if len(pods) == 0 {
		return
	}
	log.G(ctx).WithFields(log.Fields{
		"pods":            len(pods),
		"rootDirectories": strings.Join(slices.Compact(slices.Sorted(maps.Values(pods))), ", "),
	}).Warn("leaving pods of other criadapters on this engine alone, start with their --root-directory to serve them")
}
