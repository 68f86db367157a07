package nodeshutdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/godbus/dbus/v5"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// failure is the reason for ending pods, in the kubelet's words.
var failure = model.Failure{
	Reason: model.ReasonTerminated, Message: "Pod was terminated in response to imminent node shutdown.",
	Disruption: true,
}

const (
	// reconnect is the pause before D-Bus or logind is tried again.
	reconnect = time.Second
	// reload bounds the wait for logind to read its configuration again. reloadCheck is the period of the check.
	reload, reloadCheck = 5 * time.Second, 100 * time.Millisecond
	// goneCheck is how often the end of pods is checked.
	goneCheck = 100 * time.Millisecond
	// configDir is logind's configuration directory.
	configDir = "/etc/systemd/logind.conf.d"
)

// Node is the node whose pods a Manager ends. All fields are required.
type Node struct {
	// Pods lists the pods that have not ended.
	Pods func() []*v1.Pod
	// End begins to end a pod, with a grace period in seconds. Gone says that a pod's containers have ended, and its
	// volumes and cgroup are removed.
	End  func(pod *v1.Pod, grace int64, why model.Failure)
	Gone func(types.UID) bool
	// Changed is called when a shutdown begins or is cancelled. It must not block.
	Changed func()
}

// Manager ends pods when the machine is shut down. Err is safe for concurrent use.
type Manager struct {
	periods []Period
	// grace is the sum of the periods.
	grace time.Duration
	bus   func(...dbus.ConnOption) (*dbus.Conn, error)
	dir   string
	node  Node // set by Run
	// running is the goroutine that ends pods for a shutdown; nil without a shutdown. Only Run's goroutine uses it.
	running *ending

	mu sync.Mutex
	// down says that a shutdown has begun.
	down bool
	// lock is logind's inhibitor, nil if none is held.
	lock *os.File
}

// New makes a manager that delays a shutdown for the sum of the periods at most. Without periods, the manager does not
// delay shutdowns.
func New(periods []Period) *Manager {
	m := &Manager{periods: periods, bus: dbus.ConnectSystemBus, dir: configDir}
	for _, p := range periods {
		m.grace += p.Grace
	}
	return m
}

// Err is an error in the kubelet's words while the node is shutting down, else nil.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errors.New("node is shutting down")
	}
	return nil
}

// Run waits for shutdowns until ctx ends, and returns nil then. It is called once. While D-Bus or logind cannot be
// reached, it retries.
func (m *Manager) Run(ctx context.Context, node Node) error {
	if m.grace == 0 {
		return nil
	}
	m.node = node
	defer func() { m.running.stop() }()
	logged := ""
	for ctx.Err() == nil {
		err := m.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if text := fmt.Sprint(err); text != logged { // log a repeated error only once
			log.G(ctx).WithError(err).WithField("effect", m.withoutLogind()).Warn("logind cannot be reached")
			logged = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
	return nil
}

// withoutLogind returns the effect of a missing connection to logind, for the log.
func (m *Manager) withoutLogind() string {
	if m.Err() != nil {
		return "pods end for the shutdown, even if it is cancelled meanwhile"
	}
	return "shutdowns of this machine are not delayed"
}

// session follows logind until the connection or ctx ends. It holds an inhibitor while there is no shutdown. A shutdown
// outlives the session: the ending of pods goes on and keeps its inhibitor. The next session asks logind whether the
// shutdown was cancelled.
func (m *Manager) session(ctx context.Context) error {
	conn, err := connect(ctx, m.bus)
	if err != nil {
		return err
	}
	defer conn.close()
	begun, err := conn.preparing()
	if err != nil {
		return err
	}
	m.follow(ctx, begun)
	defer func() {
		if m.Err() == nil {
			m.release()
		}
	}()
	if !begun { // logind gives no inhibitor during a shutdown
		if err := m.hold(ctx, conn); err != nil {
			return err
		}
	}
	for {
		var signal *dbus.Signal
		var open bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case signal, open = <-conn.signals:
		}
		if !open {
			return errors.New("the connection to D-Bus was closed")
		}
		begins, ok := prepare(signal)
		if !ok || !m.follow(ctx, begins) || begins {
			continue
		}
		if err := m.hold(ctx, conn); err != nil {
			return err
		}
	}
}

// follow begins to end the pods if a shutdown begins, and stops the ending if the shutdown was cancelled. It reports
// whether the state changed. The ending of pods stops with ctx.
func (m *Manager) follow(ctx context.Context, down bool) (changed bool) {
	switch {
	case down == (m.Err() != nil):
		return false
	case down:
		m.setDown(true)
		log.G(ctx).Info("the machine is shutting down: pods are ended")
		m.running = m.begin(ctx)
	default:
		m.running.stop()
		m.running = nil
		m.setDown(false)
		log.G(ctx).Info("the shutdown of the machine was cancelled: pods are admitted again")
	}
	return true
}

// ending is a goroutine that ends all pods.
type ending struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin ends the pods in a goroutine, and then releases the inhibitor.
func (m *Manager) begin(ctx context.Context) *ending {
	ctx, cancel := context.WithCancel(ctx)
	e := &ending{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		defer m.release()
		m.endAll(ctx)
	}()
	return e
}

// stop cancels the goroutine and waits for its end. It may be called on nil.
func (e *ending) stop() {
	if e != nil {
		e.cancel()
		<-e.done
	}
}

// ensureDelay raises logind's delay if it is too short. If logind keeps a shorter delay, ensureDelay only logs that:
// pods then have less time. It stops waiting for logind when a shutdown begins, because the session must then end the
// pods.
func (m *Manager) ensureDelay(ctx context.Context, conn *logind) error {
	delay, err := conn.maxDelay()
	if err != nil || delay >= m.grace {
		return err
	}
	if err := conn.raiseDelay(ctx, m.dir, m.grace); err != nil {
		log.G(ctx).WithError(err).
			Warn("logind's delay of shutdowns cannot be raised: set InhibitDelayMaxSec in logind.conf")
		return nil
	}
	for deadline := time.Now().Add(reload); ; {
		if delay, err = conn.maxDelay(); err != nil || delay >= m.grace {
			return err
		}
		if begun, err := conn.preparing(); err != nil || begun {
			return err
		}
		if time.Now().After(deadline) {
			log.G(ctx).WithFields(log.Fields{"delay": delay, "wanted": m.grace}).
				Warn("logind's delay is shorter than the grace period: set InhibitDelayMaxSec in logind.conf")
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reloadCheck):
		}
	}
}

// hold takes a new inhibitor, and then ensures logind's delay. The inhibitor comes first, because logind gives none
// once a shutdown has begun. Logind reads its delay when a shutdown begins, so a raised delay counts for this
// inhibitor, too.
func (m *Manager) hold(ctx context.Context, conn *logind) error {
	m.release()
	lock, err := conn.inhibit(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.lock = lock
	m.mu.Unlock()
	if err := m.ensureDelay(ctx, conn); err != nil {
		return err
	}
	log.G(ctx).WithField("delay", m.grace).Info("shutdowns of this machine are delayed until pods have ended")
	return nil
}

// release releases the inhibitor, so that a shutdown can go on.
func (m *Manager) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock != nil {
		m.lock.Close()
		m.lock = nil
	}
}

func (m *Manager) setDown(down bool) {
	m.mu.Lock()
	m.down = down
	m.mu.Unlock()
	m.node.Changed()
}

// endAll ends one group of pods after the other. The machine's shutdown ends the pods that take longer.
func (m *Manager) endAll(ctx context.Context) {
	for _, each := range groups(m.node.Pods(), m.periods) {
		if ctx.Err() != nil {
			return
		}
		for _, pod := range each.pods {
			m.node.End(pod, each.graceOf(pod), failure)
		}
		if !m.wait(ctx, each) && ctx.Err() == nil {
			log.G(ctx).WithField("period", each.period).
				Warn("pods have not ended within their part of the shutdown grace period")
		}
	}
}

// wait says whether all pods of a group ended within its period.
func (m *Manager) wait(ctx context.Context, ending group) bool {
	deadline := time.After(ending.period)
	check := time.NewTicker(goneCheck)
	defer check.Stop()
	for _, pod := range ending.pods {
		for !m.node.Gone(pod.UID) {
			select {
			case <-ctx.Done():
				return false
			case <-deadline:
				return false
			case <-check.C:
			}
		}
	}
	return true
}
