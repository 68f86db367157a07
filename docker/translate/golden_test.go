package translate

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the golden files anew")

// kubeletPod is a pod as the kubelet sends it, with its usual fields.
func kubeletPod() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     podMetadata(),
		Hostname:     "web-0",
		LogDirectory: "/var/log/pods/shop_web-0_6f1c7a3e-0b0e-4c39-9a44-1d5b1f6a2d10",
		DnsConfig: &runtimeapi.DNSConfig{
			Servers: []string{"10.96.0.10"}, Searches: []string{"shop.svc.cluster.local", "cluster.local"},
			Options: []string{"ndots:5"},
		},
		PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 8080, HostPort: 80}},
		Labels: map[string]string{
			"app":                         "web",
			"io.kubernetes.pod.name":      "web-0",
			"io.kubernetes.pod.namespace": "shop",
			"io.kubernetes.pod.uid":       "6f1c7a3e-0b0e-4c39-9a44-1d5b1f6a2d10",
		},
		Annotations: map[string]string{"kubernetes.io/config.source": "api"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/burstable/pod6f1c7a3e-0b0e-4c39-9a44-1d5b1f6a2d10",
			Sysctls:      map[string]string{"net.core.somaxconn": "1024"},
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER,
					UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}},
				SupplementalGroups: []int64{2000},
				Seccomp:            &runtimeapi.SecurityProfile{},
			},
			Overhead:  &runtimeapi.LinuxContainerResources{},
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 512, MemoryLimitInBytes: 134217728},
		},
	}
}

func kubeletContainer() *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "app", Attempt: 1},
		Image:      &runtimeapi.ImageSpec{Image: "sha256:2f5ef26bc5b5", UserSpecifiedImage: "registry.example/web:1"},
		Command:    []string{"/web"},
		Args:       []string{"--port=8080"},
		WorkingDir: "/srv",
		Envs:       []*runtimeapi.KeyValue{{Key: "KUBERNETES_SERVICE_HOST", Value: []byte("10.96.0.1")}},
		Mounts: []*runtimeapi.Mount{
			{ContainerPath: "/data", HostPath: "/var/lib/kubelet/pods/6f1c7a3e/volumes/data", SelinuxRelabel: true},
			{ContainerPath: "/var/run/secrets/kubernetes.io/serviceaccount",
				HostPath: "/var/lib/kubelet/pods/6f1c7a3e/volumes/token", Readonly: true},
			{ContainerPath: "/etc/hosts", HostPath: "/var/lib/kubelet/pods/6f1c7a3e/etc-hosts"},
			{ContainerPath: "/dev/termination-log", HostPath: "/var/lib/kubelet/pods/6f1c7a3e/containers/app/1a2b3c4d"},
		},
		Labels: map[string]string{
			"io.kubernetes.container.name": "app",
			"io.kubernetes.pod.name":       "web-0",
			"io.kubernetes.pod.namespace":  "shop",
			"io.kubernetes.pod.uid":        "6f1c7a3e-0b0e-4c39-9a44-1d5b1f6a2d10",
		},
		Annotations: map[string]string{"io.kubernetes.container.hash": "1f2e3d4c",
			"io.kubernetes.container.terminationMessagePath": "/dev/termination-log"},
		LogPath:    "app/1.log",
		StopSignal: runtimeapi.Signal_SIGNAL_SIGUSR1,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{
				CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 512, MemoryLimitInBytes: 134217728, OomScoreAdj: 985,
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB"}},
			},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				Capabilities: &runtimeapi.Capability{DropCapabilities: []string{"ALL"},
					AddCapabilities: []string{"NET_BIND_SERVICE"}},
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER,
					UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}},
				RunAsUser:          int64Value(1000),
				RunAsGroup:         int64Value(3000),
				ReadonlyRootfs:     true,
				SupplementalGroups: []int64{2000},
				NoNewPrivs:         true,
				MaskedPaths:        []string{"/proc/kcore", "/proc/keys", "/sys/firmware"},
				ReadonlyPaths:      []string{"/proc/bus", "/proc/sys"},
				Seccomp:            &runtimeapi.SecurityProfile{},
			},
		},
	}
}

func TestGolden(t *testing.T) {
	for name, features := range map[string]docker.Features{"20.10": oldEngine(), "29": newEngine()} {
		pod := kubeletPod()
		if features.CgroupDriver == systemdDriver {
			pod.Linux.CgroupParent = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6f1c7a3e.slice"
		}
		t.Run("sandbox-"+name, func(t *testing.T) {
			compareGolden(t, "sandbox-"+name,
				mustSandbox(t, SandboxInput{Config: pod, Image: "criadapter/pause:1", Features: features}))
		})
		t.Run("container-"+name, func(t *testing.T) {
			compareGolden(t, "container-"+name, mustContainer(t, ContainerInput{
				Config:   kubeletContainer(),
				Sandbox:  SandboxRef{ID: sandboxID, Config: pod},
				ImageID:  "sha256:2f5ef26bc5b5",
				Features: features,
				Files: HostFiles{ResolvConf: "/var/lib/criadapter/files/p/resolv.conf",
					Hosts: "/var/lib/criadapter/files/p/hosts", Hostname: "/var/lib/criadapter/files/p/hostname"},
			}))
		})
	}
}

// compareGolden compares the specification for the engine with testdata/NAME.json. After a change, run the tests with
// -update and read the difference.
func compareGolden(t *testing.T, name string, spec docker.ContainerSpec) {
	t.Helper()
	got, err := json.MarshalIndent(spec, "", "  ")
	testutil.Must(t, err)
	got = append(got, '\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		testutil.Must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	testutil.Must(t, err)
	testutil.Assert(t, bytes.Equal(got, want), "differs from %s:\n%s", path, got)
}
