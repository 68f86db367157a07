package command

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/cmd/kubelet-core/configfile"
	"github.com/criadapter/criadapter/internal/sdnotify"
)

// levelFlag is the only flag that a reload applies. A change of another flag needs a restart, which ends no pod.
const levelFlag = "log-level"

// reload reads the configuration file again and applies the log level. Manifests and certificates are watched, and need
// no reload.
func (r *runFlags) reload(ctx context.Context, status func() string) {
	sdnotify.Reloading(ctx)
	defer func() { sdnotify.Ready(ctx, status()) }()
	next, err := configfile.Read(r.config)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.G(ctx).WithError(err).Error("cannot reload, all settings stay as they were")
		return
	}
	if changed := r.changed(next); len(changed) > 0 {
		log.G(ctx).WithField("settings", strings.Join(changed, ", ")).
			Warn("these settings have changed and take effect at the next restart")
	}
	if !r.given[levelFlag] {
		if err := setUpLog(levelOf(next)); err != nil {
			log.G(ctx).WithError(err).Error("cannot set the log level")
			return
		}
	}
	log.G(ctx).Info("reloaded")
}

// levelOf returns the log level in the settings of a file, or info if the file does not set it.
func levelOf(settings []configfile.Setting) string {
	if values := settingOf(settings, levelFlag).Values; len(values) > 0 {
		return values[0]
	}
	return "info"
}

// changed returns the flags whose values in the file have changed since the start. It leaves out the log level.
func (r *runFlags) changed(next []configfile.Setting) (flags []string) {
	for _, s := range slices.Concat(r.file, next) {
		if s.Flag == levelFlag || r.given[s.Flag] || slices.Contains(flags, s.Flag) {
			continue
		}
		if !slices.Equal(settingOf(r.file, s.Flag).Values, settingOf(next, s.Flag).Values) {
			flags = append(flags, s.Flag)
		}
	}
	return flags
}
