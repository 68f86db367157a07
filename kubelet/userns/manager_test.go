package userns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

func open(t *testing.T, path string) *Manager {
	t.Helper()
	m, err := Open(path)
	testutil.Must(t, err)
	return m
}

func allocate(t *testing.T, m *Manager, uid types.UID) uint32 {
	t.Helper()
	id, err := m.Allocate(uid)
	testutil.Must(t, err)
	return id
}

// TestRanges: ranges are unique, survive a restart, and are used again when their pod is gone.
func TestRanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids.json")
	m := open(t, path)
	a, b := allocate(t, m, "a"), allocate(t, m, "b")
	testutil.Assert(t, a == 65536 && b == 131072 && allocate(t, m, "a") == a, "ids from %d and %d", a, b)
	m = open(t, path)
	c := allocate(t, m, "c")
	testutil.Assert(t, c != a && c != b && allocate(t, m, "b") == b, "after a restart: ids from %d", c)
	for range 2 {
		testutil.Must(t, m.Keep(func(uid types.UID) bool { return uid != "a" }))
	}
	m = open(t, path)
	_, found := m.Find("a")
	testutil.Assert(t, !found, "a pod that is gone has ids")
	d := allocate(t, m, "d")
	testutil.Assert(t, d == a, "ids from %d, want the ids of the pod that is gone", d)
}

// TestRangesOfManyPods: concurrent calls get different ranges.
func TestRangesOfManyPods(t *testing.T) {
	m := open(t, filepath.Join(t.TempDir(), "ids.json"))
	var group sync.WaitGroup
	ids := make([]uint32, 20)
	for i := range ids {
		group.Go(func() { ids[i], _ = m.Allocate(types.UID(fmt.Sprint(i))) })
	}
	group.Wait()
	seen := map[uint32]bool{}
	for _, id := range ids {
		testutil.Assert(t, id != 0 && !seen[id], "ids from %d are given to two pods, or to none", id)
		seen[id] = true
	}
}

// TestNoRangeIsLeft: Allocate fails without a free range, and if the range cannot be written.
func TestNoRangeIsLeft(t *testing.T) {
	m := open(t, filepath.Join(t.TempDir(), "ids.json"))
	for i := range uint32(ranges) {
		m.pods[types.UID(fmt.Sprint(i))] = first + i*Length
	}
	testutil.Must(t, m.check())
	_, err := m.Allocate("more")
	testutil.Assert(t, errdefs.IsResourceExhausted(err), "error %v", err)
	last := m.pods[types.UID(fmt.Sprint(ranges-1))]
	testutil.Assert(t, uint64(last)+Length < 1<<32, "the last range begins at %d", last)
	m = open(t, filepath.Join(t.TempDir(), "none", "ids.json"))
	id, err := m.Allocate("a")
	testutil.Assert(t, err != nil && len(m.pods) == 0, "ids from %d are given without being written", id)
}

// TestUnreadableRanges: an unreadable file is an error.
func TestUnreadableRanges(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "unexpected end", `{"a": 65536, "b": 65536}`: "the same ids",
		`{"a": 7}`: "not the start of a range", `{"a": 4294901760}`: "not the start of a range",
	} {
		path := filepath.Join(t.TempDir(), "ids.json")
		testutil.Must(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Open(path)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), path),
			"%s: %v", text, err)
	}
}

// TestNullFile: an edited file that is null has no ranges.
func TestNullFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids.json")
	testutil.WriteFile(t, path, "null\n")
	testutil.Equal(t, allocate(t, open(t, path), "a"), first, "the first id")
}
