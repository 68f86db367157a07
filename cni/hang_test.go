package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A hanging plugin is killed after Options.Timeout even if its caller has no deadline, and the error names the plugin.
func TestHangingPluginIsStopped(t *testing.T) {
	for _, operation := range []string{"ADD", "DEL"} {
		t.Run(operation, func(t *testing.T) {
			s := withFake(t, "1.1.0")
			n := s.network()
			s.options.Timeout = time.Second
			hasty := s.network() // n prepares the pod, with a longer timeout
			if operation == "DEL" {
				join(t, n, "p")
			}
			s.script("fake."+operation, "sleep 300")
			failed := testutil.Go(func() error {
				if operation == "DEL" {
					return hasty.Del(context.Background(), Pod{ID: "p"}, "net")
				}
				_, err := hasty.Add(context.Background(), testPod("p"))
				return err
			})
			err := testutil.Receive(t, failed, "it hangs")
			testutil.Assert(t, errors.Is(err, context.DeadlineExceeded) &&
				strings.Contains(err.Error(), "CNI plugin fake was stopped: it did not end within"), "got %v", err)
			must(t, os.Remove(filepath.Join(s.journal, "fake."+operation+".do")))
			must(t, n.Del(context.Background(), Pod{ID: "p"}, "net"))
		})
	}
}

// newFreezer makes a cgroup that can freeze its processes, and returns a function that thaws it. The end of the test
// thaws it, too.
func newFreezer(t *testing.T) (dir string, thaw func()) {
	t.Helper()
	dir = filepath.Join("/sys/fs/cgroup/freezer", fmt.Sprintf("criadapter-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("needs the freezer of cgroup v1: %v", err)
	}
	thaw = func() { _ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0) }
	t.Cleanup(func() {
		thaw()
		testutil.Until(t, "the cgroup is empty", func() bool { return os.Remove(dir) == nil })
	})
	return dir, thaw
}

// A killed process stays while the kernel blocks it, for example in a read from a dead file system. The test freezes
// the process instead. The call must end nevertheless.
func TestPluginThatCannotBeKilled(t *testing.T) {
	freezer, thaw := newFreezer(t)
	s, n := scripted(t)
	s.script("fake.DEL", fmt.Sprintf(`echo $$ > %s/tasks; echo FROZEN > %[1]s/freezer.state; sleep 300`, freezer))
	join(t, n, "p")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := testutil.Go(func() error { return n.Del(ctx, Pod{ID: "p"}, "net") })
	testutil.Until(t, "the plugin is frozen", func() bool {
		state, err := os.ReadFile(filepath.Join(freezer, "freezer.state"))
		return err == nil && string(state) == "FROZEN\n"
	})
	cancel()
	select {
	case err := <-failed:
		testutil.Assert(t, errors.Is(err, context.Canceled) &&
			strings.Contains(err.Error(), "cannot be killed"), "got %v", err)
	case <-time.After(3 * time.Minute):
		t.Error("Del hangs")
		thaw()
		<-failed
	}
}

func TestJoined(t *testing.T) {
	s, n := scripted(t)
	want := func(when string, want bool) {
		t.Helper()
		got, err := n.Joined("p")
		testutil.Assert(t, err == nil && got == want, "%s: joined is %v, %v", when, got, err)
	}
	want("before", false)
	join(t, n, "p")
	want("after ADD", true)
	other, err := n.Joined("other")
	testutil.Assert(t, err == nil && !other, "another pod is joined: %v, %v", other, err)
	s.script("fake.DEL", "exit 1")
	testutil.Assert(t, n.Del(context.Background(), Pod{ID: "p"}, "") != nil, "Del succeeded")
	want("after a DEL that failed", true)
	must(t, os.Remove(filepath.Join(s.journal, "fake.DEL.do")))
	must(t, n.Del(context.Background(), Pod{ID: "p"}, ""))
	want("after DEL", false)

	s.script("fake.ADD", "exit 1")
	s.script("fake.DEL", "exit 1")
	var notUndone *NotUndoneError
	_, err = n.Add(context.Background(), testPod("p"))
	testutil.Assert(t, errors.As(err, &notUndone), "Add: %v", err)
	want("after an ADD that is not undone", true)
	_, err = n.Joined("../p")
	testutil.Assert(t, err != nil, "a path is accepted as an id")
}

// With DelOnly, Del uses the configuration with which the pod was joined, even after a change to another network
// plugin. The directory is not watched.
func TestDelOnly(t *testing.T) {
	s, n := scripted(t)
	for _, id := range []string{"cached", "lost"} {
		join(t, n, id)
	}
	must(t, os.Remove(filepath.Join(s.cache, "results", "net-lost-eth0")))
	s.options.DelOnly = true
	del := s.network()
	s.forgetCalls()
	must(t, del.Del(context.Background(), Pod{ID: "cached"}, "net"))
	must(t, del.Del(context.Background(), testPod("lost"), "net"))
	testutil.Equal(t, s.calls(), "ports.DEL fake.DEL ports.DEL fake.DEL", "ran")
	must(t, os.Remove(filepath.Join(s.conf, "net.conflist")))
	s.options.ConfDir = filepath.Join(s.conf, "missing")
	must(t, s.network().Del(context.Background(), Pod{ID: "cached"}, "net"))
}
