package emulated

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/cluster/realkubelet"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/vm/machine"
)

const (
	// Endpoint is the CRI server's socket, and KubeletRoot the kubelet's directory, on the machine.
	Endpoint    = "unix:///run/criadapter/criadapter.sock"
	KubeletRoot = "/var/lib/kubelet"

	// apiPort is the API server's port on the machine's 127.0.0.1.
	apiPort     = 6443
	kubeletPort = "10250"
	// kubeletFiles is the share's directory with the kubelet's files. mounted is the path of that directory on the
	// machine.
	kubeletFiles, mounted = "kubelet", "/mnt/kubelet/"

	// The other files in kubeletFiles.
	credentials, settings, authority = "kubeconfig", "kubelet.yaml", "ca.crt"
	certificate, key                 = "serving.crt", "serving.key"
)

// unit is the kubelet's service.
const unit = `[Unit]
Wants=criadapter.service
After=criadapter.service
[Service]
ExecStart=` + mounted + single.Kubelet + ` --kubeconfig ` + mounted + credentials + ` --config ` + mounted + settings +
	` --hostname-override ` + single.NodeName + ` --node-ip ` + machine.Address + ` --root-dir ` + KubeletRoot + ` --v 2
Restart=always
[Install]
WantedBy=multi-user.target
`

// writeKubeletFiles writes the kubelet's settings and certificates to the share.
func (c *Cluster) writeKubeletFiles() error {
	dir := filepath.Join(c.opts.Programs.Share, kubeletFiles)
	user, err := c.Plane.Authority.Client("system:node:"+single.NodeName, "system:nodes")
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", apiPort)
	config := filepath.Join(dir, credentials)
	if err := controlplane.Kubeconfig(config, url, c.Plane.Authority.CAFile, user); err != nil {
		return err
	}
	serving, err := c.Plane.Authority.Server(single.NodeName, single.NodeName, machine.Address)
	if err != nil {
		return err
	}
	for name, from := range map[string]string{
		authority: c.Plane.Authority.CAFile, certificate: serving.CertFile, key: serving.KeyFile,
	} {
		if err := program.CopyFile(from, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return realkubelet.Config{
		Endpoint: Endpoint, Manifests: "/etc/kubernetes/manifests", PodLogs: "/var/log/pods",
		VolumePlugins: "/var/lib/kubelet-plugins", Address: machine.Address, CAFile: mounted + authority,
		Serving: controlplane.Pair{CertFile: mounted + certificate, KeyFile: mounted + key},
		Resync:  "1m", More: c.opts.KubeletConfig,
	}.Write(filepath.Join(dir, settings))
}

func (c *Cluster) startKubelet(ctx context.Context) error {
	_, err := c.Machine.Shell(ctx, `
		mkdir -p /etc/kubernetes/manifests
		echo '`+unit+`' > /etc/systemd/system/kubelet.service
		systemctl enable --now kubelet`)
	return err
}
