// Command csidriver is a CSI driver for the tests. Each volume of a pod (CSI's ephemeral inline volumes) is a tmpfs of
// its own. Like most CSI drivers for nodes, it mounts from within a container. So its pod mounts the kubelet's
// directory with the mount propagation Bidirectional.
//
//	csidriver -node NAME
//
// It registers itself with the kubelet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/criadapter/criadapter/test/program"
)

// name is the driver's name in CSIDriver objects and pods.
const name = "tmpfs.criadapter.example"

// kubeletDir is the kubelet's directory, at the same path in the driver's pod.
const kubeletDir = "/var/lib/kubelet"

func main() {
	node := flag.String("node", "", "the `name` of the node")
	flag.Parse()
	program.Main("csidriver", func(ctx context.Context) error { return run(ctx, *node) })
}

// run serves the kubelet until ctx ends.
func run(ctx context.Context, node string) error {
	driver := filepath.Join(kubeletDir, "plugins", name, "csi.sock")
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterNodeServer(server, nodeServer{id: node})
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, registrationServer{endpoint: driver})
	failed := make(chan error, 2)
	for _, one := range []struct {
		server *grpc.Server
		socket string
	}{{server, driver}, {registrar, filepath.Join(kubeletDir, "plugins_registry", name+".sock")}} {
		listener, err := listen(one.socket)
		if err != nil {
			return err
		}
		defer one.server.Stop()
		go func() { failed <- one.server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// listen makes a socket. It first removes the socket that an earlier run has left at the same path.
func listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", socket)
}

// registrationServer says which driver the socket belongs to.
type registrationServer struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrationServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrationServer) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		fmt.Fprintln(os.Stderr, "csidriver: the kubelet refused the registration:", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}
