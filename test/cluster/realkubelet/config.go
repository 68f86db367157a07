// Package realkubelet prepares the test rig for the real kubelet: its settings, the cgroups that it expects, and mounts
// that cover the machine's directories.
package realkubelet

import (
	"cmp"
	"fmt"
	"os"

	"github.com/criadapter/criadapter/test/cluster/controlplane"
)

// Config has the settings that differ from node to node. Everything but Cgroup, DiskLeft and More is required.
type Config struct {
	// Endpoint is the address of the CRI server, unix:///….
	Endpoint string
	// Manifests is the directory of static pods, PodLogs the directory of container logs, VolumePlugins an empty one.
	Manifests, PodLogs, VolumePlugins string
	// Cgroup is the parent of all pods' cgroups, without a leading slash; MakeCgroups makes it. Empty means the root
	// cgroup.
	Cgroup string
	// Address is the listening address of the kubelet.
	Address string
	// Serving is the kubelet's certificate. CAFile has the authority of its clients.
	Serving controlplane.Pair
	CAFile  string
	// Resync is the period in which the kubelet syncs each pod and refreshes the volumes of the pod.
	Resync string
	// DiskLeft is the free part of the disk below which the kubelet evicts pods, such as "20%". Empty means 1%.
	DiskLeft string
	// More are further lines of its configuration.
	More string
}

// CoreEviction returns the kubelet core's --eviction-hard with the thresholds of a Config with this DiskLeft.
func CoreEviction(diskLeft string) string {
	return "memory.available<100Mi,nodefs.available<" + cmp.Or(diskLeft, "1%")
}

// Write writes the configuration file.
func (c Config) Write(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
staticPodPath: %s
podLogsDir: %s
volumePluginDir: %s
cgroupRoot: /%s
address: %s
tlsCertFile: %s
tlsPrivateKeyFile: %s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
syncFrequency: %s
healthzPort: 0
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
# Removed images could not be pulled again, and other programs fill the disk, too.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "%s"}
%s`, c.Endpoint, c.Manifests, c.PodLogs, c.VolumePlugins, c.Cgroup, c.Address,
		c.Serving.CertFile, c.Serving.KeyFile, c.CAFile, c.Resync, cmp.Or(c.DiskLeft, "1%"), c.More), 0o644)
}
