package docker

import (
	"context"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// The names of Docker's default bridge and of its options, which daemon.json's
// "icc" and "ip" set.
const (
	defaultBridge = "bridge"
	optionICC     = "com.docker.network.bridge.enable_icc"
	optionAddress = "com.docker.network.bridge.host_binding_ipv4"
	everyIPv4     = "0.0.0.0"
	useCNI        = ", or use --network-plugin=cni"
)

// lookAtBridge returns the values of Features.BridgeAddress and Features.BridgeFault.
func lookAtBridge(ctx context.Context, api *client.Client) (address, fault string, err error) {
	bridge, err := api.NetworkInspect(ctx, defaultBridge, client.NetworkInspectOptions{})
	if errdefs.IsNotFound(err) {
		return "",
			"the engine has no default bridge (bridge: none in its daemon.json) to put pods on: remove that setting" +
				useCNI, nil
	}
	if err != nil {
		return "", "", err
	}
	options := bridge.Network.Options
	if options[optionICC] == "false" {
		fault = "the engine's default bridge keeps containers from each other (icc: false in its daemon.json), " +
			"and pods have to reach each other: remove that setting" + useCNI
	}
	if options[optionAddress] != everyIPv4 {
		address = options[optionAddress]
	}
	return address, fault, nil
}
