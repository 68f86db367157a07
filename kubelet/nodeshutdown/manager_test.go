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
	"sync/atomic"
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

// node has the pods that a manager ends. They stay until let is called.
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

// has waits until exactly these pods are ended.
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

// run runs a manager on the service's bus until the end of the test.
func run(t *testing.T, n *node, service *login1.Service, grace, critical time.Duration) *Manager {
	t.Helper()
	m := New(periodsOf(t, Settings{Grace: grace, Critical: critical}))
	node := Node{
		End: n.end, Gone: n.gone,
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
	}
	m.dir = filepath.Join(t.TempDir(), "logind.conf.d")
	m.bus = busOf(service)
	testutil.Background(t, func(ctx context.Context) error { return m.Run(ctx, node) })
	return m
}

func busOf(service *login1.Service) func(...dbus.ConnOption) (*dbus.Conn, error) {
	return func(options ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.Connect(service.Address, options...) }
}

// TestOrderOfSignals: signals that come before the first one is read keep their order.
func TestOrderOfSignals(t *testing.T) {
	service := login1.Start(t, time.Hour)
	conn, err := connect(t.Context(), busOf(service))
	testutil.Must(t, err)
	defer conn.close()
	const signals = 20
	for i := range signals {
		service.PrepareForShutdown(i%2 == 0)
	}
	_, err = conn.preparing() // its answer comes after the signals
	testutil.Must(t, err)
	for i := 0; i < signals; {
		begins, ok := prepare(testutil.Receive(t, conn.signals, "signal %d is lost", i))
		if !ok {
			continue
		}
		testutil.Require(t, begins == (i%2 == 0), "signal %d is %t", i, begins)
		i++
	}
}

func (m *Manager) locked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lock != nil
}

// holds waits until the manager holds an inhibitor.
func (m *Manager) holds(t *testing.T) {
	t.Helper()
	testutil.Until(t, "an inhibitor is held", m.locked)
}

// holding is a node with pods, and a running manager that holds an inhibitor.
func holding(t *testing.T, grace, critical time.Duration, pods ...*v1.Pod) (*node, *login1.Service, *Manager) {
	t.Helper()
	n, service := &node{pods: pods}, login1.Start(t, time.Hour)
	m := run(t, n, service, grace, critical)
	m.holds(t)
	return n, service, m
}

// isDown waits until Err says that the node is shutting down, or with want false that it is not.
func (m *Manager) isDown(t *testing.T, want bool) {
	t.Helper()
	testutil.EventuallyWithin(t, patience, "Err follows logind's signal", func() error {
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
		t.Error("the shutdown goes on although pods run")
	default:
	}
}

func goesOn(t *testing.T, released <-chan struct{}) {
	t.Helper()
	testutil.Receive(t, released, "the shutdown is still delayed")
}

const words = ": Terminated: Pod was terminated in response to imminent node shutdown."

// TestShutdown: critical pods end after the others, and then the shutdown goes on.
func TestShutdown(t *testing.T) {
	n, service, m := holding(t, 30*time.Minute, 10*time.Minute, pod("critical", 2_000_000_000, 600),
		pod("plain", 0, 5), pod("slow", 0, 6000))
	got := service.Locks()
	testutil.Assert(t, slices.Equal(got, []string{"shutdown kubelet-core delay"}), "inhibitors %q", got)
	testutil.Must(t, m.Err())
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
	_, err := os.Stat(m.dir)
	testutil.Assert(t, err != nil, "logind was configured although it delays long enough")
}

// TestShutdownTakesNoLonger: pods that do not end in time do not delay the shutdown.
func TestShutdownTakesNoLonger(t *testing.T) {
	n, service, _ := holding(t, 2*time.Second, time.Second, pod("critical", 2_000_000_000, 600), pod("plain", 0, 600))
	goesOn(t, service.PrepareForShutdown(true))
	n.has(t, "plain in 1s"+words, "critical in 1s"+words)
}

// TestShutdownGivenUp: after a cancelled shutdown the remaining pods stay, the node admits pods, and the next shutdown
// is delayed.
func TestShutdownGivenUp(t *testing.T) {
	n, service, m := holding(t, 30*time.Minute, 10*time.Minute, pod("critical", 2_000_000_000, 600),
		pod("plain", 0, 600))
	first := service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words)
	m.isDown(t, true)
	service.PrepareForShutdown(false)
	m.isDown(t, false)
	goesOn(t, first)
	testutil.Until(t, "another inhibitor", func() bool { return len(service.Locks()) == 2 })
	m.holds(t)
	n.let("plain")
	second := service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words, "critical in 600s"+words)
	n.let("critical")
	goesOn(t, second)
	n.mu.Lock()
	defer n.mu.Unlock()
	testutil.Assert(t, n.changes == 3, "Changed was called %d times, want 3", n.changes)
}

// TestDelayIsRaised: logind's delay is raised to the grace period.
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
	text := <-written
	testutil.Assert(t, strings.Contains(text, "[Login]\nInhibitDelayMaxSec=90\n"), "logind's configuration is %q", text)
}

// TestDelayThatStays: if logind's delay cannot be raised, the manager uses the shorter delay.
func TestDelayThatStays(t *testing.T) {
	n := &node{}
	service := login1.Start(t, time.Second)
	m := run(t, n, service, 30*time.Second, 10*time.Second)
	m.holds(t) // the fake systemd refused to reload logind
	goesOn(t, service.PrepareForShutdown(true))
}

// TestBusGoesAway: after D-Bus was away, shutdowns are delayed again.
func TestBusGoesAway(t *testing.T) {
	_, service, m := holding(t, 30*time.Second, 10*time.Second)
	service.Stop()
	testutil.Until(t, "the inhibitor is released", func() bool { return !m.locked() })
	comeBack(t, service, login1.Start(t, time.Hour))
	m.holds(t)
}

// comeBack gives a stopped service's address to another service.
func comeBack(t *testing.T, stopped, next *login1.Service) {
	t.Helper()
	path := strings.TrimPrefix(stopped.Address, "unix:path=")
	testutil.Must(t, os.Symlink(strings.TrimPrefix(next.Address, "unix:path="), path+".new"))
	testutil.Must(t, os.Rename(path+".new", path))
}

// TestBusGoesAwayDuringShutdown: the ending of pods goes on without D-Bus and delays the shutdown. When D-Bus is back,
// the manager notices that the shutdown was cancelled.
func TestBusGoesAwayDuringShutdown(t *testing.T) {
	n, service, m := holding(t, 30*time.Minute, 10*time.Minute, pod("critical", 2_000_000_000, 600),
		pod("plain", 0, 600))
	service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words)
	service.Stop()
	n.let("plain")
	n.has(t, "plain in 600s"+words, "critical in 600s"+words)
	m.isDown(t, true)
	m.holds(t)
	comeBack(t, service, login1.Start(t, time.Hour))
	m.isDown(t, false)
	m.holds(t)
}

// TestShutdownBeginsWithoutBus: a shutdown that began while D-Bus was away ends the pods when D-Bus is back.
func TestShutdownBeginsWithoutBus(t *testing.T) {
	n, service, m := holding(t, 30*time.Minute, 10*time.Minute, pod("plain", 0, 600))
	service.Stop()
	next := login1.Start(t, time.Hour)
	next.PrepareForShutdown(true)
	comeBack(t, service, next)
	m.isDown(t, true)
	n.has(t, "plain in 600s"+words)
	next.PrepareForShutdown(false)
	m.isDown(t, false)
	m.holds(t)
}

// TestDelayIsRaisedAfterShutdown: a manager that starts during a shutdown raises logind's delay when the shutdown was
// cancelled.
func TestDelayIsRaisedAfterShutdown(t *testing.T) {
	service := login1.Start(t, 5*time.Second)
	var reloads atomic.Int32
	service.OnReload(func() {
		reloads.Add(1)
		service.SetDelay(90 * time.Second)
	})
	service.PrepareForShutdown(true)
	m := run(t, &node{}, service, 90*time.Second, 10*time.Second)
	m.isDown(t, true)
	service.PrepareForShutdown(false)
	m.holds(t)
	testutil.Until(t, "a reload of logind", func() bool { return reloads.Load() > 0 })
}

// TestShutdownBeginsWhileDelayStays: a shutdown is delayed, and pods end, although logind's delay stays short. The
// shutdown begins while the manager waits for the raised delay, after another shutdown was cancelled.
func TestShutdownBeginsWhileDelayStays(t *testing.T) {
	n := &node{pods: []*v1.Pod{pod("plain", 0, 600)}}
	service := login1.Start(t, time.Second)
	reloads := make(chan struct{}, 2)
	service.OnReload(func() { reloads <- struct{}{} })
	run(t, n, service, 30*time.Minute, 10*time.Minute)
	testutil.Receive(t, reloads, "logind is not reloaded")
	service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words)
	service.PrepareForShutdown(false)
	testutil.Receive(t, reloads, "logind is not reloaded after the cancelled shutdown")
	released := service.PrepareForShutdown(true)
	n.has(t, "plain in 600s"+words, "plain in 600s"+words)
	stillDelayed(t, released)
	n.let("plain")
	goesOn(t, released)
}

// TestShutdownWithoutGracePeriod: without a grace period the manager does not connect to D-Bus.
func TestShutdownWithoutGracePeriod(t *testing.T) {
	m := New(nil)
	m.bus = func(...dbus.ConnOption) (*dbus.Conn, error) {
		t.Error("the manager connects to D-Bus")
		return nil, errors.New("no")
	}
	testutil.Must(t, m.Run(t.Context(), Node{}))
}
