package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/image/trust"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/sdnotify"
)

// reloadable has the settings that a reload applies. A change of another setting needs a restart, which ends no pod.
// The map is constant.
var reloadable = map[string]bool{"log-level": true, "log-format": true}

// followReloads reloads at each SIGHUP until ctx ends. It does not report a reload to systemd before the server is
// ready, because the end of a reload reports READY.
func followReloads(ctx context.Context, hangups <-chan os.Signal, settings command.Settings, services *services) {
	for {
		select {
		case <-hangups:
			ready := services.ready.Load()
			if ready {
				sdnotify.Reloading(ctx)
			}
			if err := reload(ctx, &settings, services); err != nil {
				log.G(ctx).WithError(err).Error("reloaded in part only: fix the error and reload again")
			} else {
				log.G(ctx).Info("reloaded")
			}
			if ready {
				sdnotify.Ready(ctx, statusLine(services))
			}
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the configuration file again and applies the settings that a running server can change: the log's level
// and format, and the CNI configuration. Environment variables still override the file, with their values from the
// start of the process. Certificates and the node's registry credentials are read at each use. reload also reads them
// once, so that it reports invalid ones.
func reload(ctx context.Context, settings *command.Settings, services *services) error {
	services.network.Reload()
	next, err := settings.Reload()
	if err != nil {
		return err
	}
	if needed := needsRestart(settings.Config, next); len(needed) > 0 {
		log.G(ctx).WithField("settings", strings.Join(needed, ", ")).
			Warn("these settings have changed and take effect at the next restart")
	}
	settings.Config.LogLevel, settings.Config.LogFormat = next.LogLevel, next.LogFormat
	err = setUpLog(next)
	inForce := settings.Config
	services.inForce.Store(&inForce)
	return errors.Join(err, tryCertificate(settings.Config), tryCredentials(rootCredentials),
		tryImagePolicy(settings.Config))
}

// needsRestart names the changed settings that a reload does not apply.
func needsRestart(now, next config.Config) []string {
	var names []string
	for _, name := range config.Differences(now, next) {
		if !reloadable[name] {
			names = append(names, name)
		}
	}
	return names
}

func tryCertificate(cfg config.Config) error {
	if cfg.StreamingTLSCertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cfg.StreamingTLSCertFile, cfg.StreamingTLSKeyFile); err != nil {
		return fmt.Errorf("--streaming-tls-cert-file: %w", err)
	}
	return nil
}

// tryImagePolicy returns the error with which every decision on an image would fail.
func tryImagePolicy(cfg config.Config) error {
	if cfg.ImagePolicy == "" {
		return nil
	}
	if err := trust.Check(cfg.ImagePolicy); err != nil {
		return fmt.Errorf("--image-policy: %w", err)
	}
	return nil
}

// tryCredentials returns the error with which the next pull of a sandbox image would fail.
func tryCredentials(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && !json.Valid(text) {
		err = errors.New("it is not JSON")
	}
	if err != nil {
		return fmt.Errorf("the node's registry credentials in %s: %w", path, err)
	}
	return nil
}
