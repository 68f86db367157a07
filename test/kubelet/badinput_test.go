package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestBrokenManifests: the kubelet core reports the file and field of each broken manifest, and runs the pod of the
// good one.
func TestBrokenManifests(t *testing.T) {
	n := newNode(t)
	n.write("good.yaml", simple("good", "sleep 1000"))
	broken := map[string]struct{ text, want string }{
		"syntax.yaml": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a", "syntax.yaml"},
		"unknown.yaml": {strings.Replace(simple("unknown", "true"), "image:", "imagge: x, image:", 1),
			`unknown field "spec.containers[0].imagge"`},
		"noimage.yaml": {strings.Replace(simple("noimage", "true"), "image: SHELL,", "", 1),
			"spec.containers[0].image"},
		"kind.yaml":    {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "apiVersion"},
		"refused.yaml": {simple("refused", "true", "hostUsers: false", "hostPID: true"), "spec.hostUsers"},
		"notpod.json":  {`{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": 7}}`, "containers"},
		"greedy.yaml": {
			strings.Replace(simple("greedy", "true", "resources: {requests: {cpu: 100m}}"), "image:",
				"resources: {requests: {cpu: 200m}}, image:", 1), "spec.resources.requests[cpu]"},
		"policy.yaml": {simple("policy", "true", "restartPolicy: Sometimes"), "spec.restartPolicy"},
		"twoports.yaml": {
			strings.Replace(simple("twoports", "true"), "image:", "ports: [{containerPort: 99999}], image:", 1),
			"spec.containers[0].ports[0].containerPort"},
	}
	for name, c := range broken {
		n.write(name, c.text)
	}
	n.ready("good")
	eventually(t, "all are reported", func() error {
		body, err := n.get("/events")
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(body), `\"`, `"`)
		for name, c := range broken {
			if !strings.Contains(text, name) || !strings.Contains(text, c.want) {
				return fmt.Errorf("%s is not reported with %s", name, c.want)
			}
		}
		return nil
	})
	pods, err := n.pods()
	testutil.Assert(t, err == nil && len(pods) == 1, "%d pods run: %v", len(pods), err)
}

// TestSeveralDocuments: the pods of a YAML file run although another document of the file is bad. A pod of a JSON file
// runs, too.
func TestSeveralDocuments(t *testing.T) {
	n := newNode(t)
	n.write("many.yaml",
		simple("a", "sleep 1000")+"---\nkind: Nonsense\n---\n# nothing\n---\n"+simple("b", "sleep 1000"))
	n.write("one.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": {"terminationGracePeriodSeconds": 1,
		"containers": [{"name": "main", "image": "SHELL", "command": ["sleep", "1000"]}]}}`)
	for _, name := range []string{"a", "b", "c"} {
		n.ready(name)
	}
}

// TestTwoPodsOfOneName runs the first pod, and refuses the second until the first is gone.
func TestTwoPodsOfOneName(t *testing.T) {
	n := newNode(t)
	n.write("m.yaml", simple("twin", "echo first; sleep 1000"))
	first := n.ready("twin")
	n.write("a.yaml", simple("twin", "echo second; sleep 1000"))
	refused := n.event("twin", "PodRefused")
	testutil.Assert(t, strings.Contains(refused.Message, "m.yaml"), "message %q", refused.Message)
	stays(t, "the first runs alone", 2*time.Second, func() error {
		pods, err := n.pods()
		if err != nil {
			return err
		}
		if len(pods) != 1 || pods[0].UID != first.UID {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	})
	n.remove("m.yaml")
	n.replaced(first)
}

// TestHalfWrittenManifest overwrites the manifest of a running pod in place and in pieces.
func TestHalfWrittenManifest(t *testing.T) {
	n := newNode(t)
	before := n.run("pod", "echo one; sleep 1000")
	path := filepath.Join(n.manifests, "pod.yaml")
	text := n.expand(simple("pod", "echo two; sleep 1000"))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	testutil.Must(t, err)
	defer file.Close()
	cut := len(text) - 40
	stays(t, "an empty manifest ends no pod", time.Second, n.unchanged(before))
	_, err = file.WriteString(text[:cut])
	testutil.Must(t, err)
	stays(t, "half a manifest ends no pod", time.Second, n.unchanged(before))
	_, err = file.WriteString(text[cut:])
	testutil.Must(t, err)
	n.replaced(before)
}

// TestImageTrouble: the status says why a container does not run, and later that its pull is backed off. The container
// runs once the manifest names an image that exists.
func TestImageTrouble(t *testing.T) {
	n := newNode(t)
	missing := strings.Replace(simple("missing", "sleep 1000"), "SHELL", n.env.Image("test/nonesuch:1"), 1)
	n.write("missing.yaml", missing)
	n.write("never.yaml",
		strings.NewReplacer("SHELL", n.env.Image("test/nonesuch:1"), "IfNotPresent", "Never").
			Replace(simple("never", "sleep 1000")))
	n.write("command.yaml", strings.Replace(simple("command", "x"), "[sh, -c", "[/no/such/program", 1))
	n.until("missing", wantWaiting("main", "", model.ReasonErrImagePull))
	n.until("missing", wantWaiting("main", "", model.ReasonImagePullBackOff))
	n.until("never", wantWaiting("main", "", model.ReasonErrImageNeverPull))
	n.until("command", wantWaiting("main", "", model.ReasonRunContainerError, model.ReasonCrashLoopBackOff))
	n.run("missing", "sleep 1000")
}
