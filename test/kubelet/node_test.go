package kubelet

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestNodeLimits: all pods together get the memory that is not reserved for the system. One pod gets at most
// --pod-max-pids processes.
func TestNodeLimits(t *testing.T) {
	rigenv.RequireControllers(t, "memory", "pids")
	n := newNode(t, "--system-reserved", "memory=1Gi", "--pod-max-pids", "30")
	n.writePod("pod", `
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "(i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 1000 & done) || echo no more; sleep 1000"]}
`)
	pod := n.ready("pod")
	n.logHas(pod, "main", 0, "no more")
	got := n.podCgroup("/kubepods/besteffort/pod"+string(pod.UID), []string{"pids.max"})
	testutil.Equal(t, got, "30", "tasks that the pod may have")
	text, err := os.ReadFile("/proc/meminfo")
	testutil.Must(t, err)
	var total int64
	_, err = fmt.Sscanf(string(text), "MemTotal: %d kB", &total)
	testutil.Must(t, err)
	got = n.podCgroup("/kubepods", memoryLimit)
	testutil.Assert(t, got == fmt.Sprint((total-1<<20)<<10),
		"the memory limit of all pods is %s bytes, and the machine has %d kB", got, total)
}

// TestCredentialFile: a pull succeeds only with the credentials in the node's own file.
func TestCredentialFile(t *testing.T) {
	n := newNode(t)
	testutil.Require(t, n.env.AuthRegistry != "", "the rig has no registry that asks for credentials")
	private := strings.NewReplacer("SHELL", n.env.AuthRegistry+"/test/busybox:latest", "IfNotPresent", "Always").
		Replace(simple("pod", "sleep 1000"))
	n.write("pod.yaml", private)
	n.until("pod", wantWaiting("main", "", model.ReasonErrImagePull, model.ReasonImagePullBackOff))
	auth := base64.StdEncoding.EncodeToString([]byte(rigenv.RegistryUser + ":" + rigenv.RegistryPassword))
	config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}, "elsewhere.example": {}}, "credsStore": "x"}`,
		n.env.AuthRegistry, auth)
	testutil.Must(t, os.WriteFile(filepath.Join(n.root, "config.json"), []byte(config), 0o600))
	n.ready("pod")
}

// TestRuntimeClass runs a pod with the handler that it names, and refuses a pod whose handler the runtime does not
// have.
func TestRuntimeClass(t *testing.T) {
	n := newNode(t)
	n.write("pod.yaml", simple("pod", "sleep 1000", "runtimeClassName: runc"))
	n.write("none.yaml", simple("none", "sleep 1000", "runtimeClassName: no-such-handler"))
	pod := n.ready("pod")
	sandbox, err := n.cri.PodSandboxStatus(t.Context(), n.sandboxes(pod, false)[0], false)
	testutil.Assert(t, err == nil && sandbox.GetStatus().GetRuntimeHandler() == "runc",
		"its sandbox has the handler %q, %v", sandbox.GetStatus().GetRuntimeHandler(), err)
	event := n.event("none", "FailedCreatePodSandBox")
	testutil.Assert(t, strings.Contains(event.Message, "no-such-handler"), "event %q", event.Message)
}

// TestUserNamespace maps the pod's users and volumes to other ids of the host, if the runtime announces user
// namespaces. Otherwise an event says why the pod does not run.
func TestUserNamespace(t *testing.T) {
	n := newNode(t)
	announced, err := cri.New(n.cri, nil, n.name).UserNamespaces(t.Context(), "")
	testutil.Must(t, err)
	const command = "echo mine > /data/file; stat -c owner-%u /data/file; cat /proc/self/uid_map; sleep 1000"
	text := simple("pod", command, "hostUsers: false", "volumes: [{name: data, emptyDir: {}}]")
	n.write("pod.yaml",
		strings.Replace(text, "image: SHELL,", "image: SHELL, volumeMounts: [{name: data, mountPath: /data}],", 1))
	if !announced {
		if event := n.event("pod", "FailedCreatePodSandBox"); !strings.Contains(event.Message,
			"spec.hostUsers: the container runtime does not announce user namespaces") {
			t.Errorf("event %q", event.Message)
		}
		return
	}
	pod := n.ready("pod")
	n.logHas(pod, "main", 0, "owner-0\n")
	n.logHas(pod, "main", 0, "65536      65536\n")
}
