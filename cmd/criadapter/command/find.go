package command

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/config"
)

// Sockets of the systemd units. dropInSocket belongs to the package criadapter-cri-docker, whose units conflict with
// the units of the package criadapter.
const (
	usualSocket  = "unix:///run/criadapter/criadapter.sock"
	dropInSocket = "unix:///run/cri-dockerd.sock"
)

// findTime bounds the search for the server by commands that also work without a server.
const findTime = 5 * time.Second

// endpointsOf returns the sockets where a server with these settings may be, the likeliest first. If a flag or the
// environment names the socket's path, endpointsOf returns this socket alone. A socket from the file comes before the
// units' sockets, because the systemd units pass a flag, which overrides the file.
func endpointsOf(cfg config.Config, settings []config.Setting) []string {
	var own []string
	if cfg.SocketPath() != "" {
		own = append(own, cfg.Endpoint)
		if named(settings) {
			return own
		}
	}
	for _, endpoint := range []string{usualSocket, dropInSocket} {
		if !slices.Contains(own, endpoint) {
			own = append(own, endpoint)
		}
	}
	return own
}

// named reports whether a flag or the environment sets the socket.
func named(settings []config.Setting) bool {
	return slices.ContainsFunc(settings, func(s config.Setting) bool {
		return s.Name == "container-runtime-endpoint" && s.Named()
	})
}

// find asks the servers on these sockets in turn, and returns the first answer of criadapter. On the first socket, the
// answer of any server counts. Without an answer, it returns the error of the first socket that exists. If none exists,
// it returns the error of the first socket. askFirst asks the first server, and may start it. find asks the other
// servers only if they run.
func find(
	ctx context.Context, endpoints []string, askFirst func(context.Context, string) (status.Answer, error),
) (status.Answer, error) {
	var failed status.Answer
	var failure error
	ask := askFirst
	for i, endpoint := range endpoints {
		answer, err := ask(ctx, endpoint)
		ask = status.AskRunning
		if err == nil && (i == 0 || answer.Report != nil) {
			return answer, nil
		}
		if err != nil && (failure == nil || missing(failed.Endpoint) && !missing(endpoint)) {
			failed, failure = answer, err
		}
	}
	return failed, failure
}

// atServer returns the settings with the socket of the running server. If no criadapter answers, it returns them
// unchanged.
func atServer(ctx context.Context, cfg config.Config, settings []config.Setting) config.Config {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	if answer, err := find(ctx, endpointsOf(cfg, settings), status.AskRunning); err == nil && answer.Report != nil {
		cfg.Endpoint = answer.Endpoint
	}
	return cfg
}

// unitOf returns the systemd unit whose server has this socket.
func unitOf(endpoint string) string {
	if config.CleanSocket(endpoint) == config.CleanSocket(dropInSocket) {
		return "cri-docker"
	}
	return "criadapter"
}

func pathOf(endpoint string) string { return strings.TrimPrefix(endpoint, "unix://") }

func pathsOf(endpoints []string) []string {
	var paths []string
	for _, endpoint := range endpoints {
		paths = append(paths, pathOf(endpoint))
	}
	return paths
}

func missing(endpoint string) bool {
	_, err := os.Stat(pathOf(endpoint))
	return errors.Is(err, os.ErrNotExist)
}
