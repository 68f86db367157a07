// Package login1 runs a D-Bus with a stand-in for logind, for tests. The bus is the real dbus-daemon. The stand-in
// sends logind's signal and hands out real inhibitors. The machine is not shut down.
package login1

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/criadapter/criadapter/internal/testutil"
)

// config configures a bus without restrictions.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy>
</busconfig>
`

const (
	login1Path   = "/org/freedesktop/login1"
	login1       = "org.freedesktop.login1"
	systemd1Path = "/org/freedesktop/systemd1"
	systemd1     = "org.freedesktop.systemd1"
	patience     = time.Minute
)

// Service stands in for logind.
type Service struct {
	// Address is the bus's address, for DBUS_SYSTEM_BUS_ADDRESS.
	Address string

	t          testing.TB
	conn       *dbus.Conn
	properties *prop.Properties
	daemon     *exec.Cmd

	mu        sync.Mutex
	reloaded  func()
	locks     []*lock
	preparing bool
}

// lock is one inhibitor: a pipe whose other end the client has.
type lock struct {
	text     string
	ours     *os.File
	released chan struct{}
}

// Start starts the bus and the service. The service delays shutdowns by delay at most.
func Start(t testing.TB, delay time.Duration) *Service {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Fatal("dbus-daemon is missing: install the package dbus-daemon (Debian) or dbus")
	}
	dir, err := os.MkdirTemp("", "login1-") // a socket's path must be short
	testutil.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "bus"), filepath.Join(dir, "bus.conf")
	testutil.Must(t, os.WriteFile(file, fmt.Appendf(nil, config, socket), 0o600))
	s := &Service{Address: "unix:path=" + socket, t: t}
	s.daemon = exec.Command(program, "--config-file="+file, "--nofork", "--nopidfile", "--nosyslog")
	output := &testutil.Buffer{}
	s.daemon.Stdout, s.daemon.Stderr = output, output
	testutil.Must(t, s.daemon.Start())
	t.Cleanup(func() { s.Stop() })
	testutil.EventuallyWithin(t, patience, "the bus", func() error {
		var err error
		if s.conn, err = dbus.Connect(s.Address); err != nil {
			return fmt.Errorf("%w\n%s", err, output.String())
		}
		return nil
	})
	s.export(delay)
	return s
}

func (s *Service) export(delay time.Duration) {
	s.t.Helper()
	var err error
	s.properties, err = prop.Export(s.conn, login1Path, prop.Map{login1 + ".Manager": {
		"InhibitDelayMaxUSec":  {Value: uint64(delay.Microseconds()), Emit: prop.EmitFalse},
		"PreparingForShutdown": {Value: false, Emit: prop.EmitFalse},
	}})
	testutil.Must(s.t, err)
	testutil.Must(s.t, s.conn.Export(manager{s}, login1Path, login1+".Manager"))
	testutil.Must(s.t, s.conn.Export(units{s}, systemd1Path, systemd1+".Manager"))
	for _, name := range []string{login1, systemd1} {
		if reply, err := s.conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil ||
			reply != dbus.RequestNameReplyPrimaryOwner {
			s.t.Fatalf("%s: %v, %v", name, reply, err)
		}
	}
}

// Stop ends the bus and the service, as an update of their packages may.
func (s *Service) Stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	_ = s.daemon.Process.Kill() // it may have ended
	_ = s.daemon.Wait()         // it was killed
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.locks {
		each.ours.Close() // it may be closed already
	}
}

// OnReload sets the function that runs when logind has to reload its configuration.
func (s *Service) OnReload(reloaded func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reloaded = reloaded
}

// SetDelay changes how long shutdowns are delayed at most.
func (s *Service) SetDelay(delay time.Duration) {
	s.properties.SetMust(login1+".Manager", "InhibitDelayMaxUSec", uint64(delay.Microseconds()))
}

// Locks are all inhibitors, released ones included: what, who and mode.
func (s *Service) Locks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, each := range s.locks {
		list = append(list, each.text)
	}
	return list
}

// PrepareForShutdown sets the property PreparingForShutdown and sends the signal: a shutdown begins, or is cancelled.
// Before the call, clients must have received the inhibitors that they asked for. The returned channel is closed when
// the last inhibitor is released.
func (s *Service) PrepareForShutdown(begins bool) (released <-chan struct{}) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	locks := s.locks
	for _, each := range locks {
		each.ours.Close() // now only the client has the pipe's end open; a second Close fails without harm
	}
	go func() {
		defer close(done)
		for _, each := range locks {
			<-each.released
		}
	}()
	s.preparing = begins
	s.properties.SetMust(login1+".Manager", "PreparingForShutdown", begins)
	testutil.Must(s.t, s.conn.Emit(login1Path, login1+".Manager.PrepareForShutdown", begins))
	return done
}

// manager is the interface org.freedesktop.login1.Manager.
type manager struct{ s *Service }

// Inhibit hands out an inhibitor, but none during a shutdown.
func (m manager) Inhibit(what, who, _, mode string) (dbus.UnixFD, *dbus.Error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.preparing {
		return 0, dbus.MakeFailedError(errors.New("a shutdown has begun"))
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	made := &lock{text: what + " " + who + " " + mode, ours: write, released: make(chan struct{})}
	go func() {
		defer close(made.released)
		_, _ = read.Read(make([]byte, 1)) // no client writes; the read ends when the last write end is closed
		read.Close()
	}()
	m.s.locks = append(m.s.locks, made)
	return dbus.UnixFD(write.Fd()), nil
}

// units is the interface org.freedesktop.systemd1.Manager.
type units struct{ s *Service }

// KillUnit accepts only the signal that makes logind reload its configuration: SIGHUP to all processes of
// systemd-logind.service.
func (u units) KillUnit(name, who string, signal int32) *dbus.Error {
	u.s.mu.Lock()
	reloaded := u.s.reloaded
	u.s.mu.Unlock()
	if name != "systemd-logind.service" || who != "all" || signal != 1 || reloaded == nil {
		return dbus.MakeFailedError(fmt.Errorf("signal %d to %s of %s", signal, who, name))
	}
	reloaded()
	return nil
}
