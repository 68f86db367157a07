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

// failure is that of a pod that a shutdown ends, in the kubelet's words.
var failure = model.Failure{
	Reason: model.ReasonTerminated, Message: "Pod was terminated in response to imminent node shutdown.", Disruption: true,
}

const (
	// reconnect is the pause after D-Bus or logind went away.
	reconnect = time.Second
	// reload bounds how long logind may take to read its configuration anew; it is looked at every reloadCheck.
	reload, reloadCheck = 5 * time.Second, 100 * time.Millisecond
	// goneCheck is how often it is looked whether pods have ended.
	goneCheck = 100 * time.Millisecond
	// configDir is logind's.
	configDir = "/etc/systemd/logind.conf.d"
)

// Options configure a Manager. All are required.
type Options struct {
	// Grace is how long a shutdown is delayed at most for all pods, CriticalGrace the part of it that those with a critical
	// priority get. Grace 0 leaves shutdowns alone. CheckPeriods says whether they are right.
	Grace, CriticalGrace time.Duration
	// Pods lists the pods that have not ended.
	Pods func() []*v1.Pod
	// End ends a pod within so many seconds and does not wait for it; Gone says that nothing of a pod is left.
	End  func(pod *v1.Pod, grace int64, why model.Failure)
	Gone func(types.UID) bool
	// Changed is called when a shutdown begins or is given up. It must not block.
	Changed func()
}

// CheckPeriods says which of the periods in Options is wrong.
func CheckPeriods(grace, critical time.Duration) error {
	for _, each := range []struct {
		name   string
		period time.Duration
	}{{"shutdown grace period", grace}, {"shutdown grace period of critical pods", critical}} {
		if each.period < 0 || each.period > 0 && each.period < time.Second {
			return fmt.Errorf("the %s %v is neither 0 nor at least a second", each.name, each.period)
		}
	}
	if critical > grace {
		return fmt.Errorf("the shutdown grace period of critical pods, %v, is longer than that of all pods, %v, of which it is a part", critical, grace)
	}
	return nil
}

// Manager ends pods when the machine is shut down. Err is safe for concurrent use.
type Manager struct {
	opts Options
	bus  func(...dbus.ConnOption) (*dbus.Conn, error)
	dir  string

	mu sync.Mutex
	// down says that a shutdown is on its way.
	down bool
	// lock is logind's inhibitor, nil while there is none.
	lock *os.File
}

// New makes a manager.
func New(opts Options) *Manager {
	return &Manager{opts: opts, bus: dbus.ConnectSystemBus, dir: configDir}
}

// Err says that the node is shutting down, in the kubelet's words.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errors.New("node is shutting down")
	}
	return nil
}

// Run waits for shutdowns until ctx ends, and returns nil then. Without D-Bus or logind it tries again and again.
func (m *Manager) Run(ctx context.Context) error {
	if m.opts.Grace == 0 {
		return nil
	}
	told := ""
	for ctx.Err() == nil {
		err := m.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if text := fmt.Sprint(err); text != told { // once, and not every second
			log.G(ctx).WithError(err).Warn("shutdowns of this machine are not delayed until logind can be reached again")
			told = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
	return nil
}

// session holds an inhibitor over one connection until that or ctx ends.
func (m *Manager) session(ctx context.Context) error {
	conn, err := connect(ctx, m.bus)
	if err != nil {
		return err
	}
	defer conn.close()
	if err := m.ensureDelay(ctx, conn); err != nil {
		return err
	}
	if err := m.hold(ctx, conn); err != nil {
		return err
	}
	defer m.release()
	var running *ending
	defer func() { running.stop() }()
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
		switch {
		case !ok || begins == (m.Err() != nil):
		case begins:
			m.setDown(true)
			log.G(ctx).Info("the machine is being shut down: pods are ended")
			running = m.begin(ctx)
		default:
			running.stop()
			m.setDown(false)
			log.G(ctx).Info("the shutdown of the machine was given up: pods are taken again")
			if err := m.hold(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// ending is the end of all pods in a goroutine.
type ending struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin ends the pods and then lets the shutdown go on.
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

// stop has no more pods ended, and waits for that. Nil has nothing to stop.
func (e *ending) stop() {
	if e != nil {
		e.cancel()
		<-e.done
	}
}

// ensureDelay has logind delay shutdowns long enough. That it will not is no error: pods then have less time.
func (m *Manager) ensureDelay(ctx context.Context, conn *logind) error {
	delay, err := conn.maxDelay()
	if err != nil || delay >= m.opts.Grace {
		return err
	}
	if err := conn.raiseDelay(ctx, m.dir, m.opts.Grace); err != nil {
		log.G(ctx).WithError(err).Warn("logind's delay of shutdowns cannot be raised: set InhibitDelayMaxSec in logind.conf")
		return nil
	}
	for deadline := time.Now().Add(reload); ; {
		if delay, err = conn.maxDelay(); err != nil || delay >= m.opts.Grace {
			return err
		}
		if time.Now().After(deadline) {
			log.G(ctx).WithFields(log.Fields{"delay": delay, "wanted": m.opts.Grace}).
				Warn("logind delays shutdowns for a shorter time than pods are to get: set InhibitDelayMaxSec in logind.conf")
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reloadCheck):
		}
	}
}

// hold takes an inhibitor if there is none.
func (m *Manager) hold(ctx context.Context, conn *logind) error {
	m.release()
	lock, err := conn.inhibit(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lock = lock
	log.G(ctx).WithField("delay", m.opts.Grace).Info("shutdowns of this machine are delayed until pods have ended")
	return nil
}

// release lets a shutdown go on.
func (m *Manager) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock != nil {
		m.lock.Close() // nothing can be done about an error: the process's end closes it, too
		m.lock = nil
	}
}

func (m *Manager) setDown(down bool) {
	m.mu.Lock()
	m.down = down
	m.mu.Unlock()
	m.opts.Changed()
}

// endAll ends one group of pods after the other. Those that do not end in their time are left to what ends the machine.
func (m *Manager) endAll(ctx context.Context) {
	for _, each := range groups(m.opts.Pods(), m.opts.Grace, m.opts.CriticalGrace) {
		if ctx.Err() != nil {
			return
		}
		for _, pod := range each.pods {
			m.opts.End(pod, each.graceOf(pod), failure)
		}
		if !m.wait(ctx, each) {
			log.G(ctx).WithField("period", each.period).Warn("pods have not ended within their part of the shutdown's time")
		}
	}
}

// wait says whether all pods of a group ended within their time.
func (m *Manager) wait(ctx context.Context, ending group) bool {
	deadline := time.After(ending.period)
	check := time.NewTicker(goneCheck)
	defer check.Stop()
	for _, pod := range ending.pods {
		for !m.opts.Gone(pod.UID) {
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
