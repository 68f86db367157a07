package node

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/test/apitest"
)

// currentNode is the node as the server has it, or nil.
func currentNode(s *apitest.Server) *v1.Node {
	node, _ := s.Object(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}).(*v1.Node)
	return node
}

// currentLease is its lease, or nil.
func currentLease(s *apitest.Server) *coordination.Lease {
	lease, _ := s.Object(blankLease()).(*coordination.Lease)
	return lease
}

func blankLease() *coordination.Lease {
	return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: "here"}}
}

// calm are the files of a machine that is short of nothing.
var calm = map[string]string{
	"proc/meminfo":                   "MemTotal:        8388608 kB\nMemFree:           10000 kB\nMemAvailable:    4194304 kB\nSwapTotal:             0 kB\nHugePages_Total:       2\n",
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

var calmDisk = filesystem{bytes: 100 << 30}

// fakeMachine is calm but for the given files; an empty one is missing.
func fakeMachine(t *testing.T, different map[string]string) machine {
	t.Helper()
	m := machine{root: t.TempDir(), statfs: func(string) (filesystem, error) { return calmDisk, nil }}
	files := maps.Clone(calm)
	maps.Copy(files, different)
	for name, content := range files {
		if content != "" {
			m.write(t, name, content)
		}
	}
	return m
}

func (m machine) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start runs a reporter on a calm machine and returns how to end it. To be called within a synctest bubble.
func start(t *testing.T, s *apitest.Server, m machine, opts Options) (*Reporter, func()) {
	t.Helper()
	core := s.Core()
	opts.Clients, opts.Name = &connect.Clients{Core: core, Coordination: s.Coordination(), Watch: core, Server: "http://server"}, "here"
	if opts.IPs == nil {
		opts.IPs = []string{"192.0.2.1"}
	}
	r, err := newReporter(opts, m)
	if err != nil {
		t.Fatal(err)
	}
	if r.Exists() {
		t.Error("the node exists before it is registered")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Second):
			t.Error("Run did not end with its context")
		}
	}
}

func condition(node *v1.Node, kind v1.NodeConditionType) v1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.NodeCondition{}
}
