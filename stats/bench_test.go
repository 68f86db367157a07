package stats

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// BenchmarkContainers reads 120 containers as ListContainerStats does.
func BenchmarkContainers(b *testing.B) {
	for _, kind := range []string{v1Cgroupfs, v2Systemd} {
		b.Run(kind, func(b *testing.B) {
			n := newTestNode(b, kind)
			for i := 1; i < 120; i++ {
				n.addContainer(b, "k"+strconv.Itoa(1000+i), containerPID+100+i)
			}
			snapshot := n.cache.Snapshot()
			list := n.Containers(b.Context(), snapshot, snapshot.Containers())
			testutil.Require(b, len(list) == 120, "%d containers", len(list))
			for b.Loop() {
				n.Containers(b.Context(), snapshot, snapshot.Containers())
			}
		})
	}
}

// addContainer adds a container whose cgroups are links to the first container's cgroups.
func (n *node) addContainer(t testing.TB, id string, pid int) {
	t.Helper()
	testutil.Must(t, filepath.WalkDir(n.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.Contains(entry.Name(), "c1") {
			name := strings.Replace(entry.Name(), "c1", id, 1)
			return os.Symlink(path, filepath.Join(filepath.Dir(path), name))
		}
		return err
	}))
	cgroup, err := os.ReadFile(filepath.Join(n.proc, strconv.Itoa(containerPID), "cgroup"))
	testutil.Must(t, err)
	n.write(t, strconv.Itoa(pid)+"/cgroup", strings.ReplaceAll(string(cgroup), "c1", id))
	container := n.container
	container.ID, container.Status.PID = id, pid
	n.cache.PutContainer(container)
}
