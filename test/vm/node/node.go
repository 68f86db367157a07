// Package node makes an emulated machine a node: the tree's deb is installed there, beside CNI plugins, a network and
// crictl. The machine's engine is Debian's, or the one that ENGINE names. RUNTIME_MODE=oci registers criadapter's OCI
// runtime with the engine.
package node

import (
	"context"
	"errors"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/vm/machine"
)

// version is the release that is installed.
const version = "1.0.0"

// podNetwork is a pod network that maps ports. Docker drops forwarded packets, also between pods of one bridge. The
// plugin firewall adds rules that accept them.
const podNetwork = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
	{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {"type": "host-local",
		"ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
	{"type": "portmap", "capabilities": {"portMappings": true}},
	{"type": "firewall"}]}`

// Start starts a machine with a share that FillShare filled for its kind, and installs the deb. Close must be called
// unless Start fails.
func Start(ctx context.Context, opts machine.Options) (*machine.Machine, error) {
	var err error
	if opts.Image, err = opts.Kind.Image(ctx); err != nil {
		return nil, err
	}
	m, err := machine.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := install(ctx, m, opts.Kind); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// install installs the deb and what a node has beside it, as an operator does. crictl ignores a configuration that it
// cannot read and then asks containerd, so its answer must be criadapter's.
func install(ctx context.Context, m *machine.Machine, kind machine.Kind) error {
	_, err := m.Shell(ctx, `
		mkdir -p /opt/cni /etc/cni/net.d /etc/docker`+debian.ConfigureEngine("/mnt")+`
		cp -r /mnt/plugins /opt/cni/bin
		echo '`+podNetwork+`' > /etc/cni/net.d/10-pods.conflist
		install /mnt/crictl /usr/local/bin
		echo 'runtime-endpoint: unix:///run/criadapter/criadapter.sock' > /etc/crictl.yaml
		echo 'timeout: 60' >> /etc/crictl.yaml
		cd /mnt/`+version+`
		release=`+version+`_`+kind.Architecture+`
		dpkg --install criadapter_$release.deb kubelet-core_$release.deb
		systemctl is-active criadapter.socket criadapter.service
		crictl version | grep -x 'RuntimeName: *docker'`)
	return err
}
