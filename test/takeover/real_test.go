package takeover

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// prepareReal keeps the real kubelet away from what is the machine's: no setting moves its links to container logs, in
// /var/log/containers, nor its socket in /var/lib/kubelet.
func (n *node) prepareReal() {
	n.t.Helper()
	for _, dir := range []string{"/var/log", "/var/lib"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				n.t.Error(err)
			}
		})
	}
}

// realArgs are those of the real kubelet without an API server: it runs static pods.
func (n *node) realArgs(socket string) []string {
	config := n.path("kubelet.yaml")
	if err := os.WriteFile(config, []byte(n.realConfig(socket)), 0o644); err != nil {
		n.t.Fatal(err)
	}
	return []string{
		"--config", config, "--hostname-override", "node", "--node-ip", "127.0.0.1",
		"--root-dir", n.path("kubelet"), "--cert-dir", filepath.Join(n.path("kubelet"), "pki"), "--v", "2",
	}
}

func (n *node) realConfig(socket string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
staticPodPath: %s
podLogsDir: %s
volumePluginDir: %s
address: 127.0.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
syncFrequency: 5s
fileCheckFrequency: 1s
readOnlyPort: 0
healthzPort: 0
# The cgroups of pods are the engine's, which the rig removes.
cgroupsPerQOS: false
enforceNodeAllocatable: []
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
# Images cannot be pulled from where they came, and the disk is not the test's.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "1%%"}
`, socket, n.manifests(), n.logs(), n.path("volumeplugins"))
}
