package podspec

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

func mustSandbox(t *testing.T, g *Generator, pod *v1.Pod) *runtimeapi.PodSandboxConfig {
	t.Helper()
	config, err := g.Sandbox(context.Background(), pod, 2)
	testutil.Must(t, err)
	return config
}

func TestSandbox(t *testing.T) {
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1)), FSGroup: new(int64(3)),
			Sysctls: []v1.Sysctl{{Name: "net/ipv4/tcp_syncookies", Value: "0"}}}
		pod.Spec.InitContainers = []v1.Container{{Name: "init", Ports: []v1.ContainerPort{{ContainerPort: 1}}},
			{Name: "side", RestartPolicy: new(v1.ContainerRestartPolicyAlways),
				Ports: []v1.ContainerPort{{ContainerPort: 2, Protocol: v1.ProtocolUDP}}}}
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{
			{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: v1.ProtocolTCP}}
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("500m"),
			"memory": resource.MustParse("64Mi")}
	})
	config := mustSandbox(t, testGenerator(t, nil), pod)
	m := config.GetMetadata()
	testutil.Assert(t, m.GetName() == "web" && m.GetNamespace() == "shop" && m.GetUid() == "uid-1" &&
		m.GetAttempt() == 2, "metadata %v", m)
	testutil.Assert(t, config.GetLogDirectory() == "/var/log/pods/shop_web_uid-1" &&
		config.GetLabels()["app"] == "web" && config.GetLabels()[model.LabelOwner] == "me" &&
		config.GetAnnotations()["note"] == "n", "logs %s, labels %v, annotations %v", config.GetLogDirectory(),
		config.GetLabels(), config.GetAnnotations())
	var ports []string
	for _, p := range config.GetPortMappings() {
		ports = append(ports, p.String())
	}
	testutil.Assert(t, len(ports) == 2 && config.GetPortMappings()[1].GetHostPort() == 8080 &&
		config.GetPortMappings()[0].GetProtocol() == runtimeapi.Protocol_UDP,
		"ports %v; want the ports of the sidecar and of the app container", ports)
	linux := config.GetLinux()
	testutil.Assert(t, maps.Equal(linux.GetSysctls(), map[string]string{"net.ipv4.tcp_syncookies": "0"}),
		"sysctls %v", linux.GetSysctls())
	security := linux.GetSecurityContext()
	testutil.Assert(t, security.GetPrivileged() && security.GetRunAsUser().GetValue() == 1 &&
		security.GetSeccomp().GetProfileType() == runtimeapi.SecurityProfile_RuntimeDefault, "security %v", security)
	r := linux.GetResources()
	testutil.Assert(t, r.GetCpuQuota() == 50_000 && r.GetMemoryLimitInBytes() == 64<<20, "resources %v", r)
}

// A sysctl's name may have slashes, as for sysctl(8). The runtime gets dots.
func TestSysctls(t *testing.T) {
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.SecurityContext = &v1.PodSecurityContext{
			Sysctls: []v1.Sysctl{{Name: "net/ipv4/conf/eth0.1/mtu", Value: "1"}, {Name: "kernel.sem", Value: "2"}}}
	})
	want := map[string]string{"net.ipv4.conf.eth0/1.mtu": "1", "kernel.sem": "2"}
	got := mustSandbox(t, testGenerator(t, nil), pod).GetLinux().GetSysctls()
	testutil.Assert(t, maps.Equal(got, want), "got %v, want %v", got, want)
}

func TestNamespaces(t *testing.T) {
	const pod, container, node = runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_CONTAINER,
		runtimeapi.NamespaceMode_NODE
	for _, c := range []struct {
		name              string
		spec              v1.PodSpec
		network, pid, ipc runtimeapi.NamespaceMode
	}{
		{"usual", v1.PodSpec{}, pod, container, pod},
		{"shared", v1.PodSpec{ShareProcessNamespace: new(true)}, pod, pod, pod},
		{"host", v1.PodSpec{HostNetwork: true, HostPID: true, HostIPC: true}, node, node, node},
	} {
		got := namespaces(&c.spec)
		testutil.Assert(t, got.GetNetwork() == c.network && got.GetPid() == c.pid && got.GetIpc() == c.ipc,
			"%s: %v", c.name, got)
	}
}

func TestHostName(t *testing.T) {
	long := strings.Repeat("a", 62) + "-" + strings.Repeat("b", 30)
	for _, c := range []struct {
		name   string
		change func(*v1.Pod)
		want   hostName
		bad    string
	}{
		{"pod's name", nil, hostName{short: "web", kernel: "web"}, ""},
		{"long name", func(p *v1.Pod) {
			p.Name = long
		}, hostName{short: strings.Repeat("a", 62), kernel: strings.Repeat("a", 62)}, ""},
		{"own name", func(p *v1.Pod) { p.Spec.Hostname = "x" }, hostName{short: "x", kernel: "x"}, ""},
		{"subdomain", func(p *v1.Pod) {
			p.Spec.Subdomain = "sub"
		}, hostName{short: "web", domain: "sub.shop.svc.cluster.local", kernel: "web"}, ""},
		{"fully qualified", func(p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", new(true) },
			hostName{short: "web", domain: "sub.shop.svc.cluster.local", kernel: "web.sub.shop.svc.cluster.local"}, ""},
		{"too long", func(p *v1.Pod) {
			p.Name, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = long, "sub", new(true)
		}, hostName{}, "setHostnameAsFQDN"},
		{"override", func(p *v1.Pod) {
			p.Spec.HostnameOverride, p.Spec.Subdomain = new("a.b.c"), "sub"
		}, hostName{short: "a.b.c", kernel: "a.b.c"}, ""},
		{"bad override", func(p *v1.Pod) { p.Spec.HostnameOverride = new("A_b") }, hostName{}, "hostnameOverride"},
		{"bad name", func(p *v1.Pod) { p.Spec.Hostname = "a.b" }, hostName{}, "spec.hostname"},
		{"bad subdomain", func(p *v1.Pod) { p.Spec.Subdomain = "-" }, hostName{}, "spec.subdomain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := testGenerator(t, func(o *Options) { o.ClusterDomain = "cluster.local" })
			got, err := g.hostName(testPod(c.change))
			if got != c.want || (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
				t.Errorf("got %v, %v; want %v %s", got, err, c.want, c.bad)
			}
		})
	}
	got := mustSandbox(t, testGenerator(t, nil), testPod(func(p *v1.Pod) { p.Spec.HostNetwork = true })).GetHostname()
	testutil.Assert(t, got == "", "a pod in the host's network is called %q, want the host's name", got)
}

func TestHostsFile(t *testing.T) {
	g := testGenerator(t, nil)
	pod := testPod(func(p *v1.Pod) {
		p.Spec.Subdomain = "sub"
		p.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.99", Hostnames: []string{"a", "b"}}}
	})
	mount := mountAt(t, mustContainer(t, g, input(pod)), "/etc/hosts")
	content, err := os.ReadFile(mount.GetHostPath())
	testutil.Must(t, err)
	for _, want := range []string{"127.0.0.1\tlocalhost\n", "10.1.0.5\tweb.sub.shop.svc\tweb\n",
		"fd00::5\tweb.sub.shop.svc\tweb\n", "192.0.2.99\ta\tb\n"} {
		testutil.Assert(t, strings.Contains(string(content), want), "no line %q in\n%s", want, content)
	}
	before, err := os.Stat(mount.GetHostPath())
	testutil.Must(t, err)
	in := input(pod)
	in.PodIPs = []string{"10.1.0.6"}
	mustContainer(t, g, in)
	after, err := os.Stat(mount.GetHostPath())
	testutil.Assert(t, err == nil && os.SameFile(before, after),
		"containers that run have the old file mounted: it must be written in place (%v)", err)
	own := testPod(func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/tmp/own"}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}
	})
	config := mustContainer(t, g, input(own))
	got := mountAt(t, config, "/etc/hosts").GetHostPath()
	testutil.Assert(t, got == "/tmp/own" && len(config.GetMounts()) == 1,
		"got %v; want the container's own mount alone", config.GetMounts())
	none := input(testPod(nil))
	none.PodIPs = nil
	mounts := mustContainer(t, g, none).GetMounts()
	testutil.Assert(t, len(mounts) == 0, "a pod without an address got %v", mounts)
	host := testPod(func(p *v1.Pod) { p.Spec.HostNetwork = true; p.UID = "uid-host" })
	content, err = os.ReadFile(mountAt(t, mustContainer(t, g, input(host)), "/etc/hosts").GetHostPath())
	real, _ := os.ReadFile("/etc/hosts")
	testutil.Assert(t, err == nil && strings.Contains(string(content), string(real)),
		"%v: the host's own file is not in\n%s", err, content)
}

func mountAt(t *testing.T, config *runtimeapi.ContainerConfig, path string) *runtimeapi.Mount {
	t.Helper()
	for _, mount := range config.GetMounts() {
		if mount.GetContainerPath() == path {
			return mount
		}
	}
	t.Fatalf("nothing is mounted at %s: %v", path, config.GetMounts())
	return nil
}
