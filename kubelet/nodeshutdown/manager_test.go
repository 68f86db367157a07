package nodeshutdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/login1"
)

// patience bounds each wait of a test.
const patience = time.Minute

// node is what a manager ends; its pods stay until they are let go.
type node struct {
	mu      sync.Mutex
	pods    []*v1.Pod
	ended   []string
	changes int
}

func (n *node) end(pod *v1.Pod, grace int64, why model.Failure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = append(n.ended, fmt.Sprintf("%s in %ds: %s: %s", pod.Name, grace, why.Reason, why.Message))
}

func (n *node) gone(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.ContainsFunc(n.pods, func(p *v1.Pod) bool { return p.UID == uid })
}

func (n *node) let(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = slices.DeleteFunc(slices.Clone(n.pods), func(p *v1.Pod) bool { return p.Name == name })
}

// has waits until exactly these pods were ended.
func (n *node) has(t *testing.T, ended ...string) {
	t.Helper()
	testutil.EventuallyWithin(t, patience, "the pods are ended", func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !slices.Equal(n.ended, ended) {
			return fmt.Errorf("ended %q, want %q", n.ended, ended)
		}
		return nil
	})
}

// run runs a manager on the service's bus until the test ends.
func run(t *testing.T, n *node, service *login1.Service, grace, critical time.Duration) *Manager {
	t.Helper()
	m := New(Options{
		Grace: grace, CriticalGrace: critical, End: n.end, Gone: n.gone,
		Pods: func() []*v1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.pods
		},
		Changed: func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.changes++
		},
	})
	m.dir = filepath.Join(t.TempDir(), "logind.conf.d")
	m.bus = func(options ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.Connect(service.Address, options...) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m
}

// holds waits until the manager holds an inhibitor.
func (m *Manager) holds(t *testing.T) {
	t.Helper()
	testutil.EventuallyWithin(t, patience, "an inhibitor is held", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lock == nil {
			return errors.New("not yet")
		}
		return nil
	})
}

// down waits until the node goes down, or does not any more.
func (m *Manager) isDown(t *testing.T, want bool) {
	t.Helper()
	testutil.EventuallyWithin(t, patience, "the manager knows", func() error {
		if got := m.Err(); (got != nil) != want || got != nil && got.Error() != "node is shutting down" {
			return fmt.Errorf("it says %v", got)
		}
		return nil
	})
}

func stillDelayed(t *testing.T, released <-chan struct{}) {
	t.Helper()
	select {
	case <-released:
		t.Error("the shutdown was let go on although pods run")
	default:
	}
}

func goesOn(t *testing.T, released <-chan struct{}) {
	t.Helper()
	select {
	case <-released:
	case <-time.After(patience):
		t.Fatal("the shutdown is still delayed")
	}
}

const words = ": Terminated: Pod was terminated in response to imminent node shutdown."

// TestShutdown: critical pods end when the others have, and then the shutdown goes on.
func TestShutdown(t *testing.T) {
	n := &node{pods: []*v1.Pod{pod("critical", 2_000_000_000, 600), pod("plain", 0, 5), pod("slow", 0, 6000)}}
	service := login1.Start(t, time.Hour)
	m := run(t, n, service, 30*time.Minute, 10*time.Minute)
	m.holds(t)
	if got := service.Locks(); !slices.Equal(got, []string{"shutdown kubelet-core delay"}) {
		t.Errorf("inhibitors %q", got)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	released := service.PrepareForShutdown(true)
	first := []string{"plain in 5s" + words, "slow in 1200s" + words}
	n.has(t, first...)
	m.isDown(t, true)
	n.let("plain")
	stillDelayed(t, released)
	n.has(t, first...)
	n.let("slow")
	n.has(t, append(first, "critical in 600s"+words)...)
	stillDelayed(t, released)
	n.let("critical")
	goesOn(t, released)
	m.isDown(t, true)
	if _, err := os.Stat(m.dir); err == nil {
		t.Error("logind was configured although it delays long enough")
	}
}

// TestShutdownTakesNoLonger: pods that do not end in their time do not hold it up.
func TestShutdownTakesNoLonger(t *testing.T) {
	n := &node{pods: []*v1.Pod{pod("critical", 2_000_000_000, 600), pod("plain", 0, 600)}}
	service := login1.Start(t, time.Hour)
	m := run(t, n, service, 2*time.Second, time.Second)
	m.holds(t)
	goesOn(t, service.PrepareForShutdown(true))
	n.has(t, "plain in 1s"+words, "critical in 1s"+words)
}

// TestShutdownGivenUp: what has not ended yet stays, the node takes pods again, and the next shutdown is delayed, too.
func TestShutdownGivenUp(t *testing.T) {
	n := &node{pods: []*v1.Pod{pod("critical", 2_000_000_000, 600), pod("plain", 0, 600)}}
	service := login1.Start(t, time.Hour)
	m := run(t, n, service, 30*time.Minute, 10*time.Minute)
	m.holds(t)
	first := service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words)
	m.isDown(t, true)
	service.PrepareForShutdown(false)
	m.isDown(t, false)
	goesOn(t, first) // the first inhibitor is of no use any more
	testutil.EventuallyWithin(t, patience, "another inhibitor", func() error {
		if got := service.Locks(); len(got) != 2 {
			return fmt.Errorf("inhibitors %q", got)
		}
		return nil
	})
	m.holds(t)
	n.let("plain")
	second := service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words, "critical in 600s"+words)
	n.let("critical")
	goesOn(t, second)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changes != 3 {
		t.Errorf("the node's status was to be looked at %d times, want 3", n.changes)
	}
}

// TestDelayIsRaised: logind is configured to wait long enough, and reads that.
func TestDelayIsRaised(t *testing.T) {
	n := &node{}
	service := login1.Start(t, 5*time.Second)
	var m *Manager
	written := make(chan string, 1)
	ready := make(chan struct{})
	service.OnReload(func() {
		<-ready
		text, err := os.ReadFile(filepath.Join(m.dir, "99-kubelet-core.conf"))
		if err != nil {
			text = []byte(err.Error())
		}
		written <- string(text)
		service.SetDelay(90 * time.Second)
	})
	m = run(t, n, service, 90*time.Second, 10*time.Second)
	close(ready)
	m.holds(t)
	if text := <-written; !strings.Contains(text, "[Login]\nInhibitDelayMaxSec=90\n") {
		t.Errorf("logind's configuration is %q", text)
	}
}

// TestDelayThatStays: a logind that does not wait so long is used nevertheless.
func TestDelayThatStays(t *testing.T) {
	n := &node{}
	service := login1.Start(t, time.Second)
	m := run(t, n, service, 30*time.Second, 10*time.Second)
	m.holds(t) // systemd refused to reload it
	goesOn(t, service.PrepareForShutdown(true))
}

// TestBusGoesAway: without D-Bus no shutdown is delayed, and with it again they are.
func TestBusGoesAway(t *testing.T) {
	n := &node{}
	service := login1.Start(t, time.Hour)
	m := run(t, n, service, 30*time.Second, 10*time.Second)
	m.holds(t)
	path := strings.TrimPrefix(service.Address, "unix:path=")
	service.Stop()
	testutil.EventuallyWithin(t, patience, "the inhibitor is let go", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lock != nil {
			return errors.New("it is held")
		}
		return nil
	})
	if err := os.Symlink(strings.TrimPrefix(login1.Start(t, time.Hour).Address, "unix:path="), path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	m.holds(t)
}

// TestNothingToDelay: without a period nobody asks for D-Bus.
func TestNothingToDelay(t *testing.T) {
	m := New(Options{})
	m.bus = func(...dbus.ConnOption) (*dbus.Conn, error) {
		t.Error("D-Bus was asked for")
		return nil, errors.New("no")
	}
	if err := m.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
