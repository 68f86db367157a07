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

// leaveOthers removes the containers of other criadapters from a list. The first call logs the number of their pods.
func (c *Cache) leaveOthers(ctx context.Context, list []container.Summary) []container.Summary {
	pods := map[string]int{} // by root directory
	ours := slices.DeleteFunc(list, func(summary container.Summary) bool {
		for _, name := range summary.Names {
			if owner := c.owner(ctx, summary.ID, name, summary.Labels); owner != "" {
				if summary.Labels[translate.LabelKind] == translate.LabelKindSandbox {
					pods[owner]++
				}
				return true
			}
		}
		return false
	})
	c.othersLogged.Do(func() { logOthers(ctx, pods) })
	return ours
}

func logOthers(ctx context.Context, pods map[string]int) {
	if len(pods) == 0 {
		return
	}
	count := 0
	for _, n := range pods {
		count += n
	}
	log.G(ctx).WithFields(log.Fields{
		"pods":            count,
		"rootDirectories": strings.Join(slices.Sorted(maps.Keys(pods)), ", "),
	}).Warn("leaving pods of other criadapters on this engine alone, start with their --root-directory to serve them")
}
