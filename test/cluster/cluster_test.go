package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

var report = flag.String("report", "", "copy the logs of all programs to this `directory`")

// results are filled by the tests and printed at the end.
var results table

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	text := results.String()
	fmt.Print(text)
	if text == "" && code == 0 && os.Getenv(build.VarPrograms) != "" {
		fmt.Println("no step ran")
		code = 1
	}
	os.Exit(code)
}

// world is a control plane with one node.
type world struct {
	env          rigenv.Env
	programs     build.Programs
	kind         kind
	plane        *controlplane.ControlPlane
	core         corev1.CoreV1Interface
	coordination coordinationv1.CoordinationV1Interface
	node         *node
}

// TestCluster runs every step on a node of each kind. The kinds run beside each other, because each mostly waits. Each
// has its own engine, because a real kubelet treats all pods of an engine as its own.
func TestCluster(t *testing.T) {
	programs, err := build.FromEnviron(os.Getenv)
	if err != nil {
		t.Skip(err) // even with CI=true, because .ci/run has a separate command for these tests
	}
	env := rigenv.Require(t)
	for i, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			config := map[string]any{"cgroup-parent": "/" + env.Cgroup()}
			own := engine.ForTest(t, engine.Options{Env: env, Config: config})
			w := &world{env: own.Use(env), programs: programs, kind: kind}
			w.start(t, uint8(i))
			w.runSteps(t, steps)
		})
	}
}

// start starts the control plane with this number and a node, and waits until the node is ready for pods.
func (w *world) start(t *testing.T, number uint8) {
	t.Helper()
	began := time.Now()
	dir, err := os.MkdirTemp(w.env.WorkDir, "plane")
	testutil.Must(t, err)
	if w.plane, err = controlplane.Start(t.Context(),
		controlplane.Options{Programs: w.programs, Dir: dir, Number: number}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testutil.Check(t, errors.Join(w.plane.Failure(), w.plane.Stop()))
		testutil.Check(t, errors.Join(w.keepLogs(w.plane.LogDir), os.RemoveAll(dir)))
	})
	t.Logf("control plane ready after %v", time.Since(began).Round(100*time.Millisecond))
	clients, err := connect.Connect(w.plane.Admin, "e2e-cluster")
	testutil.Must(t, err)
	w.core, w.coordination = clients.Core, clients.Coordination
	w.node = newNode(t, w)
	w.node.start(t)
	root := &scene{T: t, world: w}
	root.kubectl("wait", "--for=create", "node/"+w.node.name, waitLimit)
	root.kubectl("wait", "--for=condition=Ready", "node/"+w.node.name, waitLimit)
	t.Logf("node ready after %v", time.Since(began).Round(100*time.Millisecond))
}

// keepLogs copies the logs in dir to the report's directory.
func (w *world) keepLogs(dir string) error {
	if *report == "" {
		return nil
	}
	return program.KeepFiles(filepath.Join(*report, string(w.kind)), dir, "*.log")
}

// scene is the environment of a step: a test, a world and a namespace that is deleted at the end.
type scene struct {
	*testing.T
	*world
	namespace string
}

// newScene makes the namespace and waits for the objects that controllers put into each namespace.
func newScene(t *testing.T, w *world, step string) *scene {
	t.Helper()
	s := &scene{T: t, world: w, namespace: strings.ToLower(strings.ReplaceAll(step, " ", "-"))}
	s.kubectl("create", "namespace", s.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			s.explain()
		}
		// The last step waits until all namespaces are gone.
		output, err := s.run(context.Background(), nil, "delete", "namespace", s.namespace, "--wait=false")
		testutil.Assert(t, err == nil, "%v\n%s", err, output)
	})
	s.eventually("the namespace has its service account and kube-root-ca.crt", func() error {
		_, missing := s.core.ServiceAccounts(s.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		_, err := s.core.ConfigMaps(s.namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return errors.Join(missing, err)
	})
	return s
}

// explain logs the state that helps to find the cause of a failed step.
func (s *scene) explain() {
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		output, err := s.run(context.Background(), nil, args...)
		s.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}
