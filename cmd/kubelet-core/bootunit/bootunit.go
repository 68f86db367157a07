// Package bootunit keeps a play running from boot on, as a service of systemd (systemd.service(5)).
package bootunit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
	"github.com/google/renameio/v2"
)

// directory holds the administrator's systemd units.
const directory = "/etc/systemd/system"

// Play describes a play that runs as a systemd service.
type Play struct {
	Name string
	// Program and Args are the command, and Dir is its working directory.
	Program string
	Args    []string
	Dir     string
	// Grace is the longest time that the pods may take to end.
	Grace time.Duration
}

// Unit returns the name of a play's unit.
func Unit(play string) string { return "kubelet-core-play-" + unit.UnitNameEscape(play) + ".service" }

// text returns the content of the unit file.
func (p *Play) text() string {
	return fmt.Sprintf(`# Made by kubelet-core play --install. kubelet-core play --uninstall --name %s removes it.
[Unit]
Description=Pods of the play %s
Wants=network-online.target
# The container runtime ends after the pods.
After=network-online.target docker.service criadapter.service containerd.service crio.service

[Service]
# Ready when all pods are.
Type=notify
WorkingDirectory=%s
ExecStart=%s
# systemd starts a killed play again, and the play takes over its pods. A play that has ended is not started again.
Restart=on-abnormal
RestartSec=1
TimeoutStartSec=infinity
TimeoutStopSec=%d
KillMode=mixed

[Install]
WantedBy=multi-user.target
`, quote(p.Name), escape(p.Name), escape(p.Dir), command(append([]string{p.Program}, p.Args...)),
		int(math.Ceil(p.Grace.Seconds()))+30)
}

// command returns the arguments as a command line in systemd's syntax.
func command(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = strings.ReplaceAll(quote(arg), "$", "$$")
	}
	return strings.Join(quoted, " ")
}

// quote quotes an argument if systemd would divide or change it.
func quote(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\"'\\;") {
		return escape(arg)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(escape(arg)) + `"`
}

// escape escapes systemd's specifiers.
func escape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// Install writes the unit, enables it and starts it. It waits until the pods are ready. An earlier unit of the play is
// replaced, and its pods end first.
func Install(ctx context.Context, play Play) error {
	systemd, err := connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	name := Unit(play.Name)
	if err := renameio.WriteFile(filepath.Join(directory, name), []byte(play.text()), 0o644); err != nil {
		return err
	}
	if err := systemd.ReloadContext(ctx); err != nil {
		return err
	}
	if _, _, err := systemd.EnableUnitFilesContext(ctx, []string{name}, false, true); err != nil {
		return err
	}
	return job(ctx, name, systemd.RestartUnitContext)
}

// Uninstall ends the play's service and removes its unit. It returns errdefs.ErrNotFound if the play has no service.
func Uninstall(ctx context.Context, play string) error {
	systemd, err := connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	name := Unit(play)
	path := filepath.Join(directory, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no service of the play %s is installed: there is no %s: %w", play, path,
			errdefs.ErrNotFound)
	}
	if err := job(ctx, name, systemd.StopUnitContext); err != nil {
		return err
	}
	if _, err := systemd.DisableUnitFilesContext(ctx, []string{name}, false); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	// Without this call, systemd would keep listing a failed unit. For other units it may fail, which does not matter.
	_ = systemd.ResetFailedUnitContext(ctx, name)
	return systemd.ReloadContext(ctx)
}

// connect connects to systemd's private socket, which needs no D-Bus daemon.
func connect(ctx context.Context) (*dbus.Conn, error) {
	systemd, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("a service needs systemd and root; --detach needs no systemd: %w: %w", err,
			errdefs.ErrUnavailable)
	}
	return systemd, nil
}

// job starts a job of systemd and waits for its end.
func job(
	ctx context.Context, name string, begin func(context.Context, string, string, chan<- string) (int, error),
) error {
	results := make(chan string, 1)
	if _, err := begin(ctx, name, "replace", results); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	select {
	case result := <-results:
		if result != "done" {
			return fmt.Errorf("%s: systemd says %s; see journalctl --unit %s", name, result, name)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
