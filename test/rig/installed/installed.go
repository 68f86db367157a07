// Package installed looks at the Docker Engine that is installed on this machine, before tests run on it.
package installed

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// defaultBridge is the name of Docker's default network, and bridgeDevice its option that names the network device.
const (
	defaultBridge = "bridge"
	bridgeDevice  = "com.docker.network.bridge.name"
)

// lookTimeout is how long the engine may take to answer.
const lookTimeout = 30 * time.Second

// DataRoot returns the engine's data root. It fails if the engine does not answer, or has lost the device of its
// default bridge. The error says what to do.
func DataRoot(ctx context.Context, host string) (string, error) {
	if !strings.HasPrefix(host, "unix://") {
		return "", fmt.Errorf("DOCKER_HOST=%s: only an engine on a unix socket is tested", host)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	api, err := client.New(client.WithHost(host))
	if err != nil {
		return "", err
	}
	defer api.Close()
	answer, err := api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", fmt.Errorf("the installed engine does not answer, start it (systemctl start docker): %w", err)
	}
	bridge, err := api.NetworkInspect(ctx, defaultBridge, client.NetworkInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return answer.Info.DockerRootDir, nil // the engine is configured without a default bridge
	case err != nil:
		return "", fmt.Errorf("the installed engine's default bridge: %w", err)
	}
	return answer.Info.DockerRootDir, deviceExists(bridge.Network.Options[bridgeDevice])
}

// deviceExists fails when the machine has no network device of that name. It accepts an empty name.
func deviceExists(name string) error {
	if name == "" {
		return nil
	}
	if _, err := net.InterfaceByName(name); err != nil {
		return fmt.Errorf("the installed engine has lost the device %s of its default bridge (%w). Another dockerd "+
			"in the machine's network namespace removes it: restart the engine (systemctl restart docker)", name, err)
	}
	return nil
}
