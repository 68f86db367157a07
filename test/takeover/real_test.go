package takeover

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/realkubelet"
)

// prepareReal keeps the real kubelet away from the machine's own directories.
func (n *node) prepareReal() {
	n.t.Helper()
	uncover, err := realkubelet.CoverMachine()
	testutil.Must(n.t, err)
	n.t.Cleanup(func() {
		testutil.Check(n.t, uncover())
	})
}

// realArgs are the arguments of the real kubelet without an API server: it runs static pods.
func (n *node) realArgs(socket string) []string {
	config := n.path("kubelet.yaml")
	testutil.Must(n.t, os.WriteFile(config, []byte(n.realConfig(socket)), 0o644))
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
# A removed image could not be pulled again, and the disk is also used by others.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "1%%"}
`, socket, n.manifests(), n.logs(), n.path("volumeplugins"))
}
