package node

import (
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/test/apitest"
)

// currentNode returns the node as the API server has it, or nil.
func currentNode(s *apitest.Server) *v1.Node {
	node, _ := s.Object(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}).(*v1.Node)
	return node
}

// currentLease returns the node's lease, or nil.
func currentLease(s *apitest.Server) *coordination.Lease {
	lease, _ := s.Object(blankLease()).(*coordination.Lease)
	return lease
}

func blankLease() *coordination.Lease {
	return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: "here"}}
}

// calm has the files of a machine without shortages.
var calm = map[string]string{
	"proc/meminfo": "MemTotal:        8388608 kB\nMemFree:           10000 kB\nMemAvailable:   " +
		" 4194304 kB\nSwapTotal:             0 kB\nHugePages_Total:       2\n",
	"proc/loadavg":                   "0.10 0.20 0.30 1/100 4242\n",
	"proc/sys/kernel/pid_max":        "32768\n",
	"proc/sys/kernel/threads-max":    "60000\n",
	"proc/sys/kernel/osrelease":      "6.1.0-test\n",
	"proc/sys/kernel/random/boot_id": "boot\n",
	"etc/machine-id":                 "machine\n",
	"etc/os-release":                 "NAME=Test\nPRETTY_NAME=\"Test Linux 1\"\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "2\n",
	"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
}

// fakeMachine has the files of calm. The map replaced has other contents of some files. An empty content removes a
// file.
func fakeMachine(t *testing.T, replaced map[string]string) machine {
	t.Helper()
	m := machine{root: t.TempDir(), statfs: func(string) (int64, error) { return 100 << 30, nil }}
	files := maps.Clone(calm)
	maps.Copy(files, replaced)
	for name, content := range files {
		if content != "" {
			testutil.WriteFile(t, filepath.Join(m.root, name), content)
		}
	}
	return m
}

// at returns a function for Options.IPs that returns these addresses.
func at(ips ...string) func() []string { return func() []string { return ips } }

// start runs a reporter and returns a function that ends it. Call it within a synctest bubble.
func start(t *testing.T, s *apitest.Server, m machine, opts Options) (*Reporter, func()) {
	t.Helper()
	core := s.Core()
	opts.Clients, opts.Name = &connect.Clients{Core: core, Coordination: s.Coordination(), Watch: core,
		Server: "http://server"}, "here"
	if opts.IPs == nil {
		opts.IPs = at("192.0.2.1")
	}
	r, err := newReporter(opts, m)
	testutil.Must(t, err)
	testutil.Assert(t, !r.Exists(), "the node exists before it is registered")
	stop := testutil.Background(t, r.Run)
	return r, func() {
		t.Helper()
		began := time.Now()
		stop()
		testutil.Assert(t, time.Since(began) < time.Second, "Run did not end with its context")
	}
}

// withNode runs test in a synctest bubble with a registered reporter on a calm machine, and then ends the reporter.
func withNode(t *testing.T, opts Options, test func(t *testing.T, s *apitest.Server, r *Reporter)) {
	t.Helper()
	m := fakeMachine(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		r, end := start(t, s, m, opts)
		defer end()
		<-r.Registered()
		test(t, s, r)
	})
}

func condition(node *v1.Node, kind v1.NodeConditionType) v1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.NodeCondition{}
}
