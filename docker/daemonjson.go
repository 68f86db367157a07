package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/internal/bounded"
)

// checkDaemonJSON refuses settings of an engine's daemon.json that a container's own configuration cannot override.
func checkDaemonJSON(f facts, features Features) error {
	// If criadapter runs in a container, its root file system may differ from the engine's.
	process := witness("/proc", f.peer)
	root := filepath.Join(process, "root")
	if features.CgroupDriver == "systemd" && process != "/proc/self" {
		if _, err := os.Lstat(filepath.Join(root, "/run/systemd/system")); errors.Is(err, os.ErrNotExist) {
			return refusal(
				"the engine leaves cgroups to systemd (exec-opts native.cgroupdriver=systemd in daemon.json), " +
					"which does not run here, so no container starts; use native.cgroupdriver=cgroupfs")
		}
	}
	if filepath.IsAbs(features.SeccompProfile) {
		text, err := os.ReadFile(filepath.Join(root, features.SeccompProfile))
		if err == nil && confinesNothing(text) {
			return refusal("seccomp-profile %s of the engine's daemon.json has neither a default action nor system "+
				"calls: pods that ask for the runtime's default profile would run unconfined; complete it, or remove "+
				"it from daemon.json for the engine's own profile", features.SeccompProfile)
		}
	}
	return nil
}

// confinesNothing reports whether the engine treats a seccomp profile as if there were none.
func confinesNothing(text []byte) bool {
	var profile struct {
		DefaultAction string            `json:"defaultAction"`
		Syscalls      []json.RawMessage `json:"syscalls"`
	}
	return json.Unmarshal(text, &profile) == nil && profile.DefaultAction == "" && len(profile.Syscalls) == 0
}

const (
	// maxBufferSize is a log option that only mode=non-blocking allows.
	maxBufferSize = "max-buffer-size"
	// noLogOption is a log option that no log driver has.
	noLogOption = "criadapter-asks"
)

// checkLogOptions refuses an engine that would refuse all containers of pods. A container with the log driver of
// daemon.json inherits the log-opts that it does not set itself. With mode=blocking, the engine refuses
// max-buffer-size, even an inherited one.
//
// The API does not list the log-opts of daemon.json. So checkLogOptions requests a container with noLogOption, which
// the engine always refuses. The refusal names max-buffer-size if the container would inherit it.
func checkLogOptions(ctx context.Context, host, logDriver, apiVersion string) error {
	attempt := container.CreateRequest{
		// The request names no image, because the engine would look for the image first.
		Config: &container.Config{Cmd: []string{noLogOption}},
		HostConfig: &container.HostConfig{LogConfig: container.LogConfig{Type: logDriver, Config: map[string]string{
			"mode": string(container.LogModeBlocking), noLogOption: "",
		}}},
	}
	answer, err := postRaw(ctx, host, "/v"+apiVersion+"/containers/create", attempt)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, maxBufferSize) {
		return nil
	}
	return refusal("log-opts of the engine's daemon.json has %s. Containers with its log-driver %s inherit this "+
		"option, and the engine refuses it in blocking mode, which pods use so that no output is lost: remove the "+
		"option, or choose another log-driver in daemon.json", maxBufferSize, logDriver)
}

// maxAnswer bounds the size of an answer, in bytes.
const maxAnswer = 64 << 10

// postRaw sends a request that moby's client refuses to send. It returns the text of the answer, with any status.
func postRaw(ctx context.Context, host, path string, body any) (string, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker"+path, bytes.NewReader(encoded))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socketPath(host))
		}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for log options: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := bounded.ReadAll(response.Body, "the answer to a request with log options", maxAnswer)
	return string(text), err
}
