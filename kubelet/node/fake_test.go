package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/kubelet/cluster"
)

// request is what the server was asked.
type request struct {
	at           time.Time
	method, path string
	body         string
}

// apiServer answers for one node and its lease, as the real one does: without a network, so that time can be simulated.
type apiServer struct {
	mu       sync.Mutex
	node     *v1.Node
	lease    *coordination.Lease
	version  int
	down     bool
	hang     bool
	requests []request
}

// RoundTrip serves one request.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	s.mu.Lock()
	s.requests = append(s.requests, request{time.Now(), r.Method, r.URL.Path, string(body)})
	down, hang := s.down, s.hang
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if down {
		return nil, errors.New("connection refused")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := s.serve(r, body)
	code := http.StatusOK
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		object := status.Status()
		answer, code = &object, int(object.Code)
	}
	text, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: r,
	}, err
}

func (s *apiServer) serve(r *http.Request, body []byte) (any, error) {
	const nodes, leases = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	switch path := r.URL.Path; {
	case path == nodes && r.Method == http.MethodPost:
		return create(s, &s.node, body, "nodes")
	case path == nodes+"/here" && r.Method == http.MethodGet:
		return get(s.node, "nodes")
	case strings.HasPrefix(path, nodes+"/here") && r.Method == http.MethodPatch:
		return s.patch(body, strings.HasSuffix(path, "/status"))
	case path == leases && r.Method == http.MethodPost:
		return create(s, &s.lease, body, "leases")
	case path == leases+"/here" && r.Method == http.MethodGet:
		return get(s.lease, "leases")
	case path == leases+"/here" && r.Method == http.MethodPut:
		return s.update(body)
	}
	return nil, fmt.Errorf("nobody serves %s %s", r.Method, r.URL.Path)
}

func get[T any](object *T, resource string) (any, error) {
	if object == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "here")
	}
	return object, nil
}

// create stores the object with a UID and a version.
func create[T any](s *apiServer, object **T, body []byte, resource string) (any, error) {
	if *object != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: resource}, "here")
	}
	made := new(T)
	if err := json.Unmarshal(body, made); err != nil {
		return nil, err
	}
	s.version++
	switch made := any(made).(type) {
	case *v1.Node:
		made.UID, made.ResourceVersion = types.UID(fmt.Sprint("uid-", s.version)), fmt.Sprint(s.version)
	case *coordination.Lease:
		made.UID, made.ResourceVersion = types.UID(fmt.Sprint("uid-", s.version)), fmt.Sprint(s.version)
	}
	*object = made
	return made, nil
}

// patch merges; the status subresource leaves the spec alone, the resource itself the status.
func (s *apiServer) patch(body []byte, status bool) (any, error) {
	if s.node == nil {
		return get(s.node, "nodes")
	}
	old, err := json.Marshal(s.node)
	if err != nil {
		return nil, err
	}
	text, err := strategicpatch.StrategicMergePatch(old, body, v1.Node{})
	if err != nil {
		return nil, err
	}
	next := &v1.Node{}
	if err := json.Unmarshal(text, next); err != nil {
		return nil, err
	}
	if status {
		next.Spec = s.node.Spec
	} else {
		next.Status = s.node.Status
	}
	s.version++
	next.ResourceVersion = fmt.Sprint(s.version)
	s.node = next
	return next, nil
}

func (s *apiServer) update(body []byte) (any, error) {
	if s.lease == nil {
		return get(s.lease, "leases")
	}
	next := &coordination.Lease{}
	if err := json.Unmarshal(body, next); err != nil {
		return nil, err
	}
	if next.ResourceVersion != s.lease.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "here", errors.New("changed"))
	}
	s.version++
	next.ResourceVersion = fmt.Sprint(s.version)
	s.lease = next
	return next, nil
}

// change does something to the server's objects.
func (s *apiServer) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *apiServer) currentNode() *v1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

func (s *apiServer) currentLease() *coordination.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// asked are the requests of a method whose path ends so.
func (s *apiServer) asked(method, suffix string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []request
	for _, r := range s.requests {
		if r.method == method && strings.HasSuffix(r.path, suffix) {
			found = append(found, r)
		}
	}
	return found
}

func (s *apiServer) clients(t *testing.T) *cluster.Clients {
	t.Helper()
	config := &rest.Config{
		Host: "http://server.test", Transport: s, QPS: 1000, Burst: 1000, Timeout: 10 * time.Second,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}, // not protobuf, so that the server can be simple
	}
	core, err := corev1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster.Clients{Core: core, Coordination: leases, Watch: core, Server: config.Host}
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

var calmDisk = filesystem{bytes: 100 << 30, freeBytes: 50 << 30, inodes: 1000, freeInodes: 500}

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
func start(t *testing.T, s *apiServer, m machine, opts Options) (*Reporter, func()) {
	t.Helper()
	opts.Clients, opts.Name = s.clients(t), "here"
	if opts.IPs == nil {
		opts.IPs = []string{"192.0.2.1"}
	}
	r, err := newReporter(opts, m)
	if err != nil {
		t.Fatal(err)
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
