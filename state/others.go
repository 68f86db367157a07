package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/docker/translate"
)

// owner returns the root directory of the criadapter that an engine container
// belongs to, when that is another one than ours. A root directory that was
// moved has taken its checkpoints along: their pods are ours, whatever the marks
// say.
func (m *Mirror) owner(id, name string, labels map[string]string) string {
	other := translate.OtherRootDirectory(name, labels, m.opts.RootDirectory)
	if other == "" {
		return ""
	}
	sandboxID := cmp.Or(labels[translate.LabelSandboxID], id)
	if _, err := m.opts.Records.Load(sandboxID); !errdefs.IsNotFound(err) {
		return ""
	}
	return other
}

// leaveOthers drops from a list what belongs to other criadapters on this
// engine. The first time, it tells how many pods that are.
func (m *Mirror) leaveOthers(list []container.Summary) []container.Summary {
	pods := map[string]int{} // by root directory
	ours := slices.DeleteFunc(list, func(summary container.Summary) bool {
		for _, name := range summary.Names {
			if owner := m.owner(summary.ID, name, summary.Labels); owner != "" {
				if summary.Labels[translate.LabelKind] == translate.LabelKindSandbox {
					pods[owner]++
				}
				return true
			}
		}
		return false
	})
	m.othersTold.Do(func() { tellOthers(pods) })
	return ours
}

func tellOthers(pods map[string]int) {
	if len(pods) == 0 {
		return
	}
	count := 0
	for _, n := range pods {
		count += n
	}
	logrus.WithFields(logrus.Fields{
		"pods":            count,
		"rootDirectories": strings.Join(slices.Sorted(maps.Keys(pods)), ", "),
	}).Warn("other criadapters have pods on this engine, they are left alone; start with their --root-directory to serve them")
}
