package translate

import (
	"path"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Log drivers of the engine, and the options that the driver local has on every
// supported engine.
const (
	logDriverNone  = "none"
	logDriverLocal = "local"
	logDriverJSON  = "json-file"

	// The engine's own files are only a buffer between the container and the CRI log. The driver needs at least two
	// files: it would drop a single file together with its unread lines.
	logFiles   = 3
	logMaxSize = "10m"
	// At this size, the engine never rotates a file that the client rotates. Otherwise the engine would count bytes
	// that ReopenContainerLog has removed. After a rotation by the engine, it would no longer append to its file, and
	// the file could not be emptied.
	logOnlyMaxSize = "1000p"
)

// sandboxLog is the log configuration of a sandbox, which writes nothing.
func sandboxLog() container.LogConfig {
	return container.LogConfig{Type: logDriverNone, Config: map[string]string{}}
}

// LogDriver returns the engine's log driver for containers. engineOnly is ContainerInput.EngineLogOnly. The driver
// local keeps bytes and unfinished lines as they are, and json-file does not.
func LogDriver(engineOnly bool) string {
	if engineOnly {
		return logDriverJSON
	}
	return logDriverLocal
}

// containerLog is the log configuration of a container. It sets all options of the driver, because the engine takes
// missing options from daemon.json. It cannot set max-buffer-size, so docker.Options.LogDriver checks that option. If
// the engine's file is the only log, the client alone rotates it, by default at 10 MiB.
func containerLog(in ContainerInput) container.LogConfig {
	options := map[string]string{
		"max-size": logMaxSize,
		"max-file": strconv.Itoa(logFiles),
		"compress": "false",
		"mode":     string(container.LogModeBlocking),
	}
	if in.EngineLogOnly {
		options["max-size"] = logOnlyMaxSize
		// These options would add text to each line. An empty value adds nothing.
		for _, name := range []string{"labels", "labels-regex", "env", "env-regex", "tag"} {
			options[name] = ""
		}
	} else if in.EngineLogSize > 0 {
		options["max-size"] = strconv.FormatInt(in.EngineLogSize/logFiles, 10)
	}
	return container.LogConfig{Type: LogDriver(in.EngineLogOnly), Config: options}
}

// logPath returns the absolute path of a container's CRI log, empty if the pod or the container has none. It refuses a
// path outside of the pod's log directory.
func logPath(field string, pod *runtimeapi.PodSandboxConfig, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if err := checkPath(field, name); err != nil {
		return "", err
	}
	if err := checkText(field, name); err != nil {
		return "", err
	}
	clean := path.Clean(name)
	if path.IsAbs(name) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", invalid(field, "%q leaves the log directory, give a path relative to it", name)
	}
	if pod.GetLogDirectory() == "" {
		return "", nil
	}
	return path.Join(pod.GetLogDirectory(), clean), nil
}
