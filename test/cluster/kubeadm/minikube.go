package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// minikubeStart has minikube make a cluster of the machine itself. minikube finds the programs in its cache and
// downloads none. --force makes it accept a newer Kubernetes than it knows. With the values of --extra-config, the
// kubelet and kubeadm run on cgroup v1.
const minikubeStart = "/mnt/minikube start --driver=none --container-runtime=docker --force" +
	" --install-addons=false --kubernetes-version=" + build.Version + " --image-repository=" + registryAddress +
	" --wait=all --extra-config=kubelet.fail-cgroupv1=false" +
	" --extra-config=kubeadm.ignore-preflight-errors=SystemVerification"

// minikube makes a cluster of node1 after kubeadm's reset. It installs the package that gives criadapter the names of
// cri-dockerd. kubeadm's reset leaves the interfaces of the pods' network, and their routes would hide minikube's.
// minikube replaces the engine's settings, with the registry among them, so the pod's image is pulled first. A pod must
// run with Docker as the kubelet's runtime, and minikube must remove the whole cluster.
func (t *trial) minikube(ctx context.Context) error {
	const image = registryAddress + "/test/busybox:latest"
	m := t.machines["node1"]
	if _, err := m.Shell(ctx, fmt.Sprintf(`
		systemctl disable --now kubelet
		ip link delete cni0
		ip link delete flannel.1
		rm -rf /etc/systemd/system/kubelet.service /etc/cni/net.d/*
		systemctl daemon-reload
		docker pull `+image+`
		dpkg --install /mnt/%s/criadapter-cri-docker_%[1]s_%s.deb
		mkdir -p /root/.minikube/cache/linux/%[2]s/%s
		cp /mnt/bin/kube* /root/.minikube/cache/linux/%[2]s/%[3]s`,
		version, runtime.GOARCH, build.Version)); err != nil {
		return err
	}
	if _, err := m.Shell(ctx, "export HOME=/root\n"+minikubeStart); err != nil {
		return err
	}
	out, err := m.Shell(ctx, `
		export KUBECONFIG=/root/.kube/config
		kubectl run pod --image=`+image+` --image-pull-policy=Never --command -- sleep 1000000
		kubectl wait --for=condition=Ready pod/pod --timeout=3m
		kubectl exec pod -- hostname
		kubectl get nodes --output jsonpath='{.items[*].status.nodeInfo.containerRuntimeVersion}'`)
	if err != nil {
		return err
	}
	if lines := strings.Fields(out); len(lines) < 2 || !strings.HasPrefix(lines[len(lines)-1], "docker://") {
		return fmt.Errorf("minikube's pod and node say %q, want the host name pod and a runtime docker://", out)
	}
	_, err = m.Shell(ctx, `
		export HOME=/root
		/mnt/minikube delete
		test -z "$(docker ps --all --quiet)"`)
	return err
}
