package check

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

// write makes a file with its directories.
func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testutil.Must(t, os.WriteFile(path, []byte(content), mode))
}

// emptyNode returns the settings of a node without an engine. All its files are below the returned directory.
func emptyNode(t *testing.T) (config.Config, string) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.DockerEndpoint = "unix://" + dir + "/docker.sock"
	cfg.Endpoint = "unix://" + dir + "/cri.sock"
	cfg.RootDirectory = dir + "/root"
	cfg.CNIConfDir, cfg.CNIBinDir = dir+"/net.d", dir+"/bin"
	return cfg, dir
}

// find returns the finding of a check.
func find(t *testing.T, report checklist.Report, check string) checklist.Finding {
	t.Helper()
	i := slices.IndexFunc(report.Findings, func(f checklist.Finding) bool { return f.Check == check })
	testutil.Require(t, i >= 0, "no finding %q in %+v", check, report.Findings)
	return report.Findings[i]
}

func TestNodeWithNothing(t *testing.T) {
	cfg, dir := emptyNode(t)
	write(t, dir+"/cri.sock", "", 0o600)
	report := judgeNode(gather(t.Context(), Options{Config: cfg, KubeletConfig: dir + "/kubelet.yaml"}))
	for check, want := range map[string]string{
		"engine":            "no such file or directory",
		"CNI configuration": "no CNI configuration in " + dir + "/net.d yet",
		"CRI socket":        "it is not a socket",
		"kubelet's config":  "no such file or directory",
	} {
		f := find(t, report, check)
		testutil.Assert(t, f.Status == checklist.Fail && strings.Contains(f.Text, want),
			"%+v, want a failure with %q", f, want)
	}
	f := find(t, report, "pods")
	testutil.Assert(t, f.Status == checklist.Warn && strings.Contains(f.Text, "not looked for"), "got %+v", f)
}

// The plugins are scripts. One plugin is missing, and one is not executable.
func TestPlugins(t *testing.T) {
	cfg, dir := emptyNode(t)
	write(t, dir+"/net.d/10-net.conflist", `{"cniVersion":"1.0.0","name":"net","plugins":[
		{"type":"good","ipam":{"type":"address"}},{"type":"old","ipam":{"type":"no-program"}},{"type":"locked"},{"type":"missing"}]}`, 0o644)
	answer := func(versions string) string {
		return "#!/bin/sh\necho '{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[" + versions + "]}'\n"
	}
	write(t, dir+"/bin/good", answer(`"0.4.0","1.0.0"`), 0o755)
	write(t, dir+"/bin/address", answer(`"1.0.0"`), 0o755)
	write(t, dir+"/bin/old", answer(`"0.1.0"`), 0o755)
	write(t, dir+"/bin/locked", answer(`"1.0.0"`), 0o644)
	report := judgeNode(gather(t.Context(), Options{Config: cfg}))
	for check, want := range map[string]struct {
		status checklist.Outcome
		text   string
	}{
		"CNI configuration": {checklist.OK, "network net in " + dir + "/net.d/10-net.conflist, CNI 1.0.0"},
		"plugin good":       {checklist.OK, dir + "/bin/good, CNI up to 1.0.0"},
		"plugin address":    {checklist.OK, "CNI up to 1.0.0"},
		"plugin old":        {checklist.Fail, "supports CNI 0.1.0, the configuration has cniVersion 1.0.0"},
		"plugin locked":     {checklist.Fail, "permission denied"},
		"plugin missing":    {checklist.Fail, "is not in " + dir + "/bin"},
	} {
		f := find(t, report, check)
		testutil.Assert(t, f.Status == want.status && strings.Contains(f.Text, want.text),
			"%+v, want %s with %q", f, want.status, want.text)
	}
}

func TestReadKernel(t *testing.T) {
	root := t.TempDir()
	for path, content := range map[string]string{
		"proc/sys/kernel/osrelease": "5.10.0\n", "proc/sys/user/max_user_namespaces": "100\n",
		"sys/module/apparmor/parameters/enabled": "Y\n",
		"proc/swaps":                             "Filename\tType\n/dev/sda2 partition\n",
		"proc/sys/net/ipv4/ip_forward":           "1\n", "proc/pressure/cpu": "some avg10=0\n",
		"proc/self/status": "Name:\tx\nSeccomp:\t0\n", "proc/sys/fs/inotify/max_user_instances": "128\n",
	} {
		write(t, filepath.Join(root, path), content, 0o644)
	}
	want := kernelFacts{
		Release: "5.10.0", MaxUserNamespaces: 100, AppArmor: true, SwapOn: true, IPForward: true, PSI: true,
		Seccomp: true, InotifyInstances: 128,
	}
	got := readKernel(root)
	testutil.Assert(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
	write(t, filepath.Join(root, "proc/sys/kernel/ns_last_pid"), "1\n", 0o644)
	write(t, filepath.Join(root, "usr/sbin/criu"), "", 0o755)
	testutil.Assert(t, readKernel(root).CRIU, "CRIU is not found")
}

func TestReadKubelet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path,
		"cgroupDriver: systemd\nfailSwapOn: false\nmemorySwap:\n  swapBehavior: LimitedSwap\npodLogsDir: /logs\n",
		0o644)
	want := kubeletFacts{File: path, CgroupDriver: "systemd", LimitedSwap: true, PodLogsDirectory: "/logs"}
	testutil.Equal(t, readKubelet(path), want, "readKubelet")
	write(t, path, "", 0o644)
	got := readKubelet(path)
	testutil.Assert(t, got.CgroupDriver == "" && got.FailSwapOn, "the kubelet's defaults are %+v", got)
	flags := filepath.Join(filepath.Dir(path), "kubeadm-flags.env")
	write(t, path, "containerRuntimeEndpoint: unix:///run/criadapter/criadapter.sock\n", 0o644)
	for text, endpoint := range map[string]string{
		`KUBELET_KUBEADM_ARGS="--v=2 --container-runtime-endpoint=unix:///a.sock --node-ip=::1"`: "unix:///a.sock",
		`KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/b.sock"`:                 "unix:///run/b.sock",
		`KUBELET_KUBEADM_ARGS='--container-runtime-endpoint "/b.sock"'`:                          "/b.sock",
		"# --container-runtime-endpoint=/c.sock\nKUBELET_KUBEADM_ARGS=\"\"":                      "",
	} {
		write(t, flags, text+"\n", 0o644)
		got, file := readKubelet(path), flags
		if endpoint == "" {
			endpoint, file = "unix:///run/criadapter/criadapter.sock", "" // as the configuration file says
		}
		testutil.Assert(t, got.RuntimeEndpoint == endpoint && got.FlagsFile == file, "%s: got %+v", text, got)
	}
	write(t, path, "cgroupDriver: [a\n", 0o644)
	testutil.Assert(t, readKubelet(path).Err != nil, "a file that cannot be read passes")
}

// memberOf is a container whose pod has neither a sandbox container nor a record.
func memberOf(pod string) container.Summary {
	const name = "k8s_app_p_n_u_0"
	return container.Summary{ID: strings.Repeat("e", 64), Names: []string{"/" + name}, Labels: map[string]string{
		translate.LabelKind: translate.LabelKindContainer, translate.LabelSandboxID: pod,
		translate.LabelRecord: `{"name":"` + name + `"}`,
	}}
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	alive, dead := strings.Repeat("a", 64), strings.Repeat("d", 64)
	kernel, lost := strings.Repeat("b", 64), strings.Repeat("c", 64) // without sandbox containers
	for path, content := range map[string]string{
		"netns/criadapter-" + alive[:32]: "", "netns/criadapter-" + dead[:32]: "", "netns/someone-elses": "",
		"netns/criadapter-" + kernel[:32]: "", "netns/criadapter-" + lost[:32]: "",
		"root/pods/unreadable.json": "", "root/pods/quarantine/x.json": "",
		"leases/net/10.0.0.2": alive + "\r\neth0", "leases/net/10.0.0.3": dead + "\r\neth0",
		"leases/net/fd00::3":            dead + "\r\neth0",
		"leases/net/last_reserved_ip.0": "10.0.0.3", "leases/net/lock": "", "leases/other/10.0.0.4": dead,
		"net.conf": `{"name":"net","type":"bridge","ipam":{"type":"host-local","dataDir":"` + dir + `/leases"}}`,
	} {
		write(t, filepath.Join(dir, path), content, 0o644)
	}
	store, err := checkpoint.Open(dir + "/root/pods")
	testutil.Must(t, err)
	for id, namespaces := range map[string]*checkpoint.Namespaces{alive: nil, dead: nil, kernel: {Dir: "/run/pod"}} {
		testutil.Must(t, store.Save(t.Context(), checkpoint.Record{SandboxID: id, Namespaces: namespaces}))
	}
	records, err := checkpoint.Look(dir + "/root/pods")
	testutil.Must(t, err)
	known := pods{all: map[string]bool{}}
	known.addListed([]container.Summary{{ID: alive}, memberOf(lost)})
	known.addRecorded(records)
	gone := func(id string) bool { return id != "" && !known.has(id) }
	leases, err := staleLeases(dir+"/net.conf", gone)
	testutil.Must(t, err)
	for name, test := range map[string]struct{ got, want []string }{
		"pins":       {stalePins(dir+"/netns", gone), []string{dir + "/netns/criadapter-" + dead[:32]}},
		"records":    {staleRecords(records, gone), []string{dead}},
		"quarantine": {records.Quarantined, []string{dir + "/root/pods/quarantine/x.json"}},
		"leases":     {leases, []string{dir + "/leases/net/10.0.0.3", dir + "/leases/net/fd00::3"}},
	} {
		testutil.Assert(t, slices.Equal(test.got, test.want), "%s: got %q, want %q", name, test.got, test.want)
	}
	rules := `-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net\" id: \"` + dead + `\"" -m multiport --dports 80 -j CNI-DN-1
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net\" id: \"` + alive + `\"" -m multiport --dports 81 -j CNI-DN-2
-A POSTROUTING -s 10.0.0.3/32 -m comment --comment "name: \"net\" id: \"` + dead + `\"" -j CNI-3
-A KUBE-SERVICES -m comment --comment "default/kubernetes:https cluster IP" -j KUBE-SVC`
	got := rulesOf(rules, gone)
	testutil.Assert(t, slices.Equal(got, []string{dead, dead}), "rules: got %q", got)
}

// The rules of IPv4 are found even if the rules of IPv6 cannot be read. No option names a table, because the kernel
// would create it.
func TestRulesOfOneFamily(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	write(t, dir+"/iptables-save",
		"#!/bin/sh\n"+`[ $# = 0 ] && echo '--comment "dnat name: \"net\" id: \"0a\""'`, 0o755)
	write(t, dir+"/ip6tables-save", "#!/bin/sh\nexit 3\n", 0o755)
	ids, err := staleRules(t.Context(), func(string) bool { return true })
	testutil.Assert(t, slices.Equal(ids, []string{"0a"}), "got %q", ids)
	testutil.Assert(t, err != nil && err.Error() == "ip6tables-save: exit status 3", "got the error %v", err)
}

func FuzzRules(f *testing.F) {
	f.Add(`--comment "dnat name: \"net\" id: \"0a\""`)
	f.Fuzz(func(t *testing.T, rules string) {
		for _, id := range rulesOf(rules, func(string) bool { return true }) {
			testutil.Assert(t, id != "" && strings.Trim(id, "0123456789abcdef") == "", "%q is not an id", id)
		}
	})
}

func TestMirrorsAreFound(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"docker/certs.d/docker.io/hosts.toml", "docker/certs.d/plain.example.com/ca.crt",
		"containerd/certs.d/docker.io/hosts.toml", "containerd/certs.d/quay.io/hosts.toml"} {
		testutil.WriteFile(t, filepath.Join(root, "etc", file), "")
	}
	engine, containerd := readMirrors(root)
	testutil.Assert(t, slices.Equal(engine, []string{"docker.io"}), "mirrors of the engine %q", engine)
	testutil.Assert(t, slices.Equal(containerd, []string{"quay.io"}), "mirrors of containerd alone %q", containerd)
}

func TestSameFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/run/x", "", 0o600)
	write(t, dir+"/run/y", "", 0o600)
	testutil.Must(t, os.Symlink(dir+"/run", dir+"/link"))
	for other, want := range map[string]bool{"/run/x": true, "/link/x": true, "/run/y": false, "/run/z": false} {
		testutil.Equal(t, sameFile(dir+"/run/x", dir+other), want, "%s", other)
	}
	testutil.Assert(t, sameFile(dir+"/run/z", dir+"/run/z"), "a missing file is not itself")
}
