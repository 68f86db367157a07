package cni

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/criadapter/criadapter/internal/osthread"
	"github.com/criadapter/criadapter/internal/testutil"
)

// space is a network namespace of one test. It is reached through an open file (its path is below /proc), so nothing is
// mounted and nothing can be left behind.
type space struct {
	path   string
	handle netns.NsHandle
	once   sync.Once
}

func newSpace(t testing.TB) *space {
	t.Helper()
	s := &space{}
	err := osthread.Do(func() error {
		handle, err := netns.New()
		if err != nil {
			return err
		}
		s.handle, s.path = handle, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(handle))
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	must(t, err)
	t.Cleanup(func() { s.remove(t) })
	return s
}

// remove removes the namespace and its path.
func (s *space) remove(t testing.TB) {
	s.once.Do(func() {
		testutil.Check(t, s.handle.Close())
	})
}

// do runs fn inside the namespace. Processes that fn starts are in it too,
// because a child inherits the namespace of the thread that forks it.
func (s *space) do(fn func() error) error {
	return osthread.Do(func() error {
		if err := netns.Set(s.handle); err != nil {
			return err
		}
		return fn()
	})
}
