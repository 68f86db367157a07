package nodeshutdown

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/renameio/v2"
)

const (
	logindName       = "org.freedesktop.login1"
	logindPath       = dbus.ObjectPath("/org/freedesktop/login1")
	logindManager    = logindName + ".Manager"
	prepareForMember = "PrepareForShutdown"
	systemdName      = "org.freedesktop.systemd1"
	systemdPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// logind is a connection to systemd-logind.
type logind struct {
	conn    *dbus.Conn
	signals chan *dbus.Signal
}

// connect connects to a bus and subscribes to the signal.
func connect(ctx context.Context, bus func(...dbus.ConnOption) (*dbus.Conn, error)) (*logind, error) {
	// The default handler of the library loses the order of signals while the channel is full.
	conn, err := bus(dbus.WithContext(ctx), dbus.WithSignalHandler(dbus.NewSequentialSignalHandler()))
	if err != nil {
		return nil, fmt.Errorf("D-Bus: %w", err)
	}
	l := &logind{conn: conn, signals: make(chan *dbus.Signal)}
	conn.Signal(l.signals)
	err = conn.AddMatchSignalContext(ctx, dbus.WithMatchObjectPath(logindPath), dbus.WithMatchInterface(logindManager),
		dbus.WithMatchMember(prepareForMember))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("subscribe to logind: %w", err)
	}
	return l, nil
}

func (l *logind) close() { l.conn.Close() }

// prepare parses a signal. Ok says that it is PrepareForShutdown. Begins is true if a shutdown begins, and false if it
// was cancelled.
func prepare(signal *dbus.Signal) (begins, ok bool) {
	if signal.Name != logindManager+"."+prepareForMember || len(signal.Body) != 1 {
		return false, false
	}
	begins, ok = signal.Body[0].(bool)
	return begins, ok
}

// preparing says whether a shutdown has begun and was not cancelled. connect has subscribed to later changes.
func (l *logind) preparing() (bool, error) {
	return property[bool](l, "PreparingForShutdown", "boolean")
}

// maxDelay is the longest time that logind delays a shutdown.
func (l *logind) maxDelay() (time.Duration, error) {
	microseconds, err := property[uint64](l, "InhibitDelayMaxUSec", "number")
	return time.Duration(microseconds) * time.Microsecond, err
}

// property reads a property of logind. Kind is its type in an error.
func property[T any](l *logind, name, kind string) (value T, err error) {
	read, err := l.conn.Object(logindName, logindPath).GetProperty(logindManager + "." + name)
	if err != nil {
		return value, fmt.Errorf("logind's %s: %w", name, err)
	}
	value, ok := read.Value().(T)
	if !ok {
		return value, fmt.Errorf("logind's %s is %v, not a %s", name, read, kind)
	}
	return value, nil
}

// inhibit delays shutdowns until the file is closed.
func (l *logind) inhibit(ctx context.Context) (*os.File, error) {
	var fd dbus.UnixFD
	err := l.conn.Object(logindName, logindPath).CallWithContext(ctx, logindManager+".Inhibit", 0,
		"shutdown", "kubelet-core", "Pods need time to end", "delay").Store(&fd)
	if err != nil {
		return nil, fmt.Errorf("logind's Inhibit: %w", err)
	}
	return os.NewFile(uintptr(fd), "inhibitor"), nil
}

// raiseDelay raises logind's delay with a configuration file and a reload.
func (l *logind) raiseDelay(ctx context.Context, dir string, delay time.Duration) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# Made by kubelet-core for its --shutdown-grace-period.\n[Login]\nInhibitDelayMaxSec=%d\n",
		int64((delay+time.Second-1)/time.Second))
	if err := renameio.WriteFile(filepath.Join(dir, "99-kubelet-core.conf"), []byte(text), 0o644); err != nil {
		return err
	}
	// logind reads its configuration again on SIGHUP, which systemd sends to the unit.
	call := l.conn.Object(systemdName, systemdPath).CallWithContext(ctx, systemdName+".Manager.KillUnit", 0,
		"systemd-logind.service", "all", int32(syscall.SIGHUP))
	if call.Err != nil {
		return fmt.Errorf("reload logind: %w", call.Err)
	}
	return nil
}
