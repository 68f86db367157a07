package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A kill below a pod's cgroup counts if its cgroup is gone, or belongs to the ended container. Kills in containers that
// still run do not count.
func TestOOMKills(t *testing.T) {
	n := newV2Node(t, wholeNode)
	pod := v2Pods[0]
	set := func(cgroup string, kills int) {
		events := fmt.Sprintf("low 0\nhigh 0\nmax 7\noom 3\noom_kill %d\noom_group_kill 0\n", kills)
		testutil.Must(t, os.WriteFile(filepath.Join(n.root, cgroup, "memory.events"), []byte(events), 0o644))
	}
	want := func(when, id string, kills uint64) {
		t.Helper()
		for _, parent := range []string{filepath.Base(pod.slice), pod.slice} {
			got, ok := n.OOMKills(parent, id)
			testutil.Assert(t, ok && got == kills, "%s, %s: %d, %t, want %d", when, parent, got, ok, kills)
		}
	}
	set(pod.slice, 0)
	want("no kill", "", 0)
	set(pod.slice, 2)
	set(pod.scope(pod.container), 2)
	want("of a process of a running container", "", 0)
	want("of the container that ended", strings.Repeat(pod.container, 64), 2)
	testutil.Must(t, os.RemoveAll(filepath.Join(n.root, pod.scope(pod.container))))
	want("of a container that is gone", "", 2)
	set(pod.scope(pod.sandbox), 3)
	want("read while the kernel counted", "", 0)
	testutil.Must(t, os.Remove(filepath.Join(n.root, pod.slice, "memory.events")))
	_, ok := n.OOMKills(pod.slice, "")
	testutil.Assert(t, !ok, "OOMKills returns a count without a memory controller")
}
