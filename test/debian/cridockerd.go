package debian

import (
	"strings"

	"github.com/criadapter/criadapter/internal/pause"
)

// StartCRIDockerd is a command that makes a machine a node of the real cri-dockerd, with the files that kubeadm would
// write. The program must be at /usr/local/bin/cri-dockerd. The node's kubelet is kubelet-core, with the pods of
// FillShare. criadapter stays installed, and does not run.
func StartCRIDockerd() []string {
	return append(Script(`
		systemctl disable --now kubelet-core
		systemctl disable --now criadapter.socket criadapter.service
		printf %s "$0" > /etc/systemd/system/cri-docker.service
		printf %s "$1" > /etc/systemd/system/cri-docker.socket
		printf %s "$2" > /etc/systemd/system/kubelet.service
		mkdir -p /etc/kubernetes/manifests /var/lib/kubelet
		docker load --quiet --input /mnt/hello.tar
		cp /mnt/web.yaml /mnt/agent.yaml /etc/kubernetes/manifests
		echo 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/cri-dockerd.sock"' \
			> /var/lib/kubelet/kubeadm-flags.env
		systemctl daemon-reload
		systemctl start cri-docker.socket cri-docker.service kubelet`),
		strings.ReplaceAll(criDockerdService, "PAUSE", pause.Reference), criDockerdSocket, kubeletService)
}

const (
	criDockerdService = `[Unit]
Requires=cri-docker.socket
[Service]
Type=notify
ExecStart=/usr/local/bin/cri-dockerd --container-runtime-endpoint fd:// --network-plugin=cni \
	--pod-infra-container-image=PAUSE
KillMode=process
`
	criDockerdSocket = `[Socket]
ListenStream=/run/cri-dockerd.sock
`
	kubeletService = `[Service]
EnvironmentFile=/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/bin/kubelet-core run --manifests /etc/kubernetes/manifests $KUBELET_KUBEADM_ARGS
KillMode=process
Restart=always
RestartSec=1
`
)
