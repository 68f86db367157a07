package docker

import (
	"context"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// The names of Docker's default bridge and of its options. "icc" and "ip" of daemon.json set the options.
const (
	defaultBridge = "bridge"
	optionICC     = "com.docker.network.bridge.enable_icc"
	optionAddress = "com.docker.network.bridge.host_binding_ipv4"
	everyIPv4     = "0.0.0.0"
	useCNI        = ", or use --network-plugin=cni"
)

// lookAtBridge sets the fields of features about the default bridge.
func lookAtBridge(ctx context.Context, api *client.Client, features *Features) error {
	bridge, err := api.NetworkInspect(ctx, defaultBridge, client.NetworkInspectOptions{})
	if errdefs.IsNotFound(err) {
		features.BridgeFault = "the engine has no default bridge (bridge: none in its daemon.json) to put pods on: " +
			"remove that setting" + useCNI
		return nil
	}
	if err != nil {
		return err
	}
	options := bridge.Network.Options
	if options[optionICC] == "false" {
		features.BridgeFault = "the engine's default bridge isolates containers from each other (icc: false in its " +
			"daemon.json), but pods must reach each other: remove that setting" + useCNI
	}
	if options[optionAddress] != everyIPv4 {
		features.BridgeAddress = options[optionAddress]
	}
	features.BridgeIPv6 = bridge.Network.EnableIPv6
	return nil
}
