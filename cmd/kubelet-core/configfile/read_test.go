package configfile

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// said returns settings as a command line.
func said(settings []Setting) string {
	var all []string
	for _, s := range settings {
		for _, value := range s.Values {
			all = append(all, fmt.Sprintf("--%s=%s", s.Flag, value))
		}
	}
	return strings.Join(all, " ")
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"nothing":           {"", ""},
		"a duration":        {"syncFrequency: 90s", "--sync-frequency=90s"},
		"durations of zero": {"syncFrequency: 0s\nshutdownGracePeriod: 0s\nimageMaximumGCAge: 0s", ""},
		"a structure":       {"authentication: {x509: {clientCAFile: /ca.crt}}", "--client-ca-file=/ca.crt"},
		"an empty text":     {`containerRuntimeEndpoint: ""`, ""},
		"null":              {"resolvConf: null\ntracing: null", ""},
		"numbers": {"maxPods: 7\nport: 0\nimageGCLowThresholdPercent: 0",
			"--image-gc-low-threshold=0 --max-pods=7"},
		"lists": {"clusterDNS: [10.96.0.10, 'fd00::a']", "--cluster-dns=10.96.0.10 --cluster-dns=fd00::a"},
		"a header": {"staticPodURLHeader: {X-A: [b, c]}",
			"--manifest-url-header=X-A:b --manifest-url-header=X-A:c"},
		"a header without values": {"staticPodURLHeader: {X-A: []}", ""},
		"thresholds": {"evictionHard: {nodefs.available: 5%, memory.available: 1Gi}",
			"--eviction-hard=memory.available<1Gi --eviction-hard=nodefs.available<5%"},
		"no thresholds": {"evictionHard: {}", "--eviction-hard="},
		"reservations": {"systemReserved: {cpu: 500m, memory: 1Gi}\nkubeReserved: {cpu: '1', pid: '100'}",
			"--system-reserved=cpu=1500m --system-reserved=memory=1Gi --system-reserved=pid=100"},
		"one pull":          {"serializeImagePulls: true", "--parallel-pulls=1"},
		"several pulls":     {"serializeImagePulls: false\nmaxParallelImagePulls: 5", "--parallel-pulls=5"},
		"the size of a log": {"containerLogMaxSize: 5Mi", "--container-log-max-size=5242880"},
		"no limit of pids":  {"podPidsLimit: -1", "--pod-max-pids=0"},
		"a limit of pids":   {"podPidsLimit: 300", "--pod-max-pids=300"},
		"a verbosity":       {"logging: {verbosity: 4}", "--log-level=debug"},
		"a high verbosity":  {"logging: {verbosity: 10}", "--log-level=trace"},
		"a taint": {"registerWithTaints: [{key: a, value: b, effect: NoSchedule}]",
			"--register-with-taints=a=b:NoSchedule"},
		"a shutdown by priorities": {
			"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 20}, " +
				"{priority: 100000, shutdownGracePeriodSeconds: 10}]",
			"--shutdown-grace-period-by-pod-priority=0=20s --shutdown-grace-period-by-pod-priority=100000=10s"},
		"a default":          {"hairpinMode: promiscuous-bridge\ncpuCFSQuotaPeriod: 100ms", ""},
		"swap":               {"failSwapOn: false\nmemorySwap: {}", ""},
		"a list of defaults": {"enforceNodeAllocatable: [pods]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := Parse([]byte(header + c.file))
			testutil.Must(t, err)
			testutil.Equal(t, said(settings), c.want, "settings")
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string // parts of the error
	}{
		"another kind": {"apiVersion: v1\nkind: Pod",
			[]string{"kind is Pod", "want kubelet.config.k8s.io/v1beta1"}},
		"no YAML":          {"{", []string{"yaml"}},
		"a field twice":    {header + "maxPods: 1\nmaxPods: 2", []string{"maxPods"}},
		"two documents":    {header + "maxPods: 1\n---\nmaxPods: 2", []string{"another document begins"}},
		"an unknown field": {header + "maxPodz: 1", []string{"maxPodz is not a field of KubeletConfiguration"}},
		"an unknown field within": {header + "authentication: {x509: {caFile: /ca.crt}}",
			[]string{"authentication.x509.caFile is not a field"}},
		"a type":            {header + "maxPods: many", []string{"maxPods is many, want a number"}},
		"half a pod":        {header + "maxPods: 1.5", []string{"maxPods is 1.5, want a number"}},
		"a bad duration":    {header + "syncFrequency: 10", []string{"syncFrequency is 10, want a duration"}},
		"a number in pairs": {header + "systemReserved: {cpu: 1}", []string{"systemReserved is", "want a map"}},
		"not supported": {header + "topologyManagerPolicy: restricted",
			[]string{"topologyManagerPolicy is restricted, which kubelet-core does not support: it must be none"}},
		"a remedy": {header + "runOnce: true", []string{"runOnce is true", "use kubelet-core play"}},
		"several": {header + "runOnce: true\npodCIDR: 10.0.0.0/24\nfeatureGates: {A: true}",
			[]string{"runOnce", "podCIDR is 10.0.0.0/24, which kubelet-core does not support", "featureGates"}},
		"any number of pulls": {header + "serializeImagePulls: false", []string{"maxParallelImagePulls"}},
		"contradictions":      {header + "serializeImagePulls: true\nmaxParallelImagePulls: 5", []string{"contradict"}},
		"a bad taint": {header + "registerWithTaints: [{key: a}]",
			[]string{"registerWithTaints [0] needs a key"}},
		"a bad quantity": {header + "containerLogMaxSize: big", []string{"containerLogMaxSize"}},
		"a health port of zero": {header + "healthzPort: 0",
			[]string{"healthzPort is 0, which kubelet-core does not support: it must be 10248; use --read-address"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.file))
			testutil.Require(t, err != nil, "the file is accepted")
			for _, part := range c.want {
				testutil.Assert(t, strings.Contains(err.Error(), part), "error %q lacks %q", err, part)
			}
		})
	}
}

// TestFileOfKubeadm has the file that kubeadm 1.37.2 writes by default. kubelet-core refuses one field of it.
func TestFileOfKubeadm(t *testing.T) {
	raw, err := os.ReadFile("testdata/kubeadm.yaml")
	testutil.Must(t, err)
	_, err = Parse(raw)
	testutil.Require(t, err != nil, "the rotation of certificates is accepted")
	testutil.Equal(t, len(strings.Split(err.Error(), "\n")), 1, "refused fields: %v", err)
	testutil.Assert(t, strings.Contains(err.Error(), "rotateCertificates"), "another field is refused: %v", err)

	settings, err := Parse([]byte(strings.Replace(string(raw), "rotateCertificates: true", "", 1)))
	testutil.Must(t, err)
	for _, want := range []string{"--client-ca-file=/etc/kubernetes/pki/ca.crt", "--cluster-dns=10.96.0.10",
		"--cluster-domain=cluster.local", "--cgroup-driver=systemd", "--manifests=/etc/kubernetes/manifests"} {
		testutil.Assert(t, slices.Contains(strings.Fields(said(settings)), want), "%s is not set: %s", want,
			said(settings))
	}
}

// FuzzParse checks that any file gives an error, or settings with a flag and a field each.
func FuzzParse(f *testing.F) {
	for _, file := range []string{header, header + "maxPods: 1\nevictionHard: {a: b}",
		header + "registerWithTaints: [1]\nclusterDNS: [[]]\nlogging: {verbosity: x}"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		settings, err := Parse(raw)
		for _, s := range settings {
			testutil.Require(t, err == nil && s.Flag != "" && s.Field != "", "setting %+v, error %v", s, err)
		}
	})
}
