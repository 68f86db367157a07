package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// playArgs are the arguments of play or down on the node's runtime, in its directories.
func (n *node) playArgs(command string, args ...string) []string {
	return append([]string{
		command, "--name", n.name, "--container-runtime-endpoint", n.server.Endpoint(), "--root-dir", n.root,
		"--pod-logs-dir", n.logs, "--claims-dir", filepath.Join(n.dir, "claims"),
		"--cgroup-root", n.cgroup(), "--cgroup-driver", "cgroupfs", "--log-level", "info",
	}, args...)
}

// playFile writes the manifests of a play to a file, and returns its path.
func (n *node) playFile(text string) string {
	n.t.Helper()
	file := filepath.Join(n.dir, "play.yaml")
	testutil.Must(n.t, os.WriteFile(file, []byte(n.expand(text)), 0o644))
	return file
}

// play begins a play of the manifests in text.
func (n *node) play(text string, args ...string) (*output, *exec.Cmd, <-chan error) {
	n.t.Helper()
	return n.playFiles(append(args, n.playFile(text))...)
}

// playFiles begins a play with these arguments.
func (n *node) playFiles(args ...string) (*output, *exec.Cmd, <-chan error) {
	n.t.Helper()
	out, cmd := &output{}, exec.Command(n.program, n.playArgs("play", args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	testutil.Must(n.t, cmd.Start())
	ended := testutil.Go(cmd.Wait)
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if the play has ended
		if n.t.Failed() {
			n.t.Logf("play:\n%s", out.String())
		}
	})
	return out, cmd, ended
}

// down ends the node's play.
func (n *node) down() {
	n.t.Helper()
	output, err := exec.CommandContext(n.t.Context(), n.program, n.playArgs("down")...).CombinedOutput()
	testutil.Require(n.t, err == nil, "down: %v\n%s", err, output)
}

// nothingLeft checks that nothing is left of the node's play.
func (n *node) nothingLeft() {
	n.t.Helper()
	sandboxes, err := n.cri.ListPodSandbox(n.t.Context(),
		&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: "play-" + n.name}})
	testutil.Assert(n.t, err == nil && len(sandboxes) == 0, "sandboxes: %v, %v", sandboxes, err)
	found := cgroups.Find(n.cgroup())
	testutil.Assert(n.t, len(found) == 0, "cgroups: %v", found)
	for _, dir := range []string{n.root, n.logs} {
		testutil.Gone(n.t, dir)
	}
}

// endsWith waits for the end of a command and checks its exit code.
func endsWith(t *testing.T, ended <-chan error, want int) {
	t.Helper()
	select {
	case err := <-ended:
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		testutil.Assert(t, code == want, "exit code %d, want %d", code, want)
	case <-time.After(patience):
		t.Fatal("the command does not end")
	}
}

// TestPlay runs a deployment, its configuration and its services. Another pod reaches a service by name, and the
// machine reaches it by a port. Play shows logs, and Ctrl-C leaves nothing.
func TestPlay(t *testing.T) {
	n := prepareNode(t)
	port := testutil.FreePort(t)
	out, cmd, ended := n.play(fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {greeting: a word}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {key: a secret}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: HELLO, ports: [{name: http, containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: http, nodePort: %d}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: hidden, secret: {secretName: hidden}}, {name: data, emptyDir: {medium: Memory}}]
  containers:
  - name: main
    image: SHELL
    env: [{name: GREETING, valueFrom: {configMapKeyRef: {name: words, key: greeting}}}]
    command: [sh, -c, "hostname; echo $GREETING; cat /hidden/key; echo; until grep -q web.default.svc /etc/hosts; do sleep 0.1; done; wget -qO- http://web:8080/ | wc -c; echo reached; sleep 1000"]
    volumeMounts: [{name: hidden, mountPath: /hidden}, {name: data, mountPath: /data}]
`, port), "--follow")
	for _, want := range []string{
		"client/main | client\n", "client/main | a word\n", "client/main | a secret\n", "client/main | reached\n",
		"web-1 | Ready", "web-2 | Ready", fmt.Sprintf("port %d of this machine leads to web-1", port),
	} {
		out.has(t, want)
	}
	answers(t, port)
	testutil.Must(t, cmd.Process.Signal(syscall.SIGINT))
	endsWith(t, ended, 0)
	n.nothingLeft()
}

// answers waits until a web server answers on a port of the machine.
func answers(t *testing.T, port int) {
	t.Helper()
	eventually(t, "the port of the machine", func() error {
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		for _, address := range addresses {
			if ip := address.(*net.IPNet).IP; ip.To4() != nil && !ip.IsLoopback() && served(ip.String(), port) == nil {
				return nil
			}
		}
		return errors.New("no address answers")
	})
}

// TestPlayURL reads two pods from a web server and publishes a port of one. The other pod reaches the first by name.
func TestPlayURL(t *testing.T) {
	n := prepareNode(t)
	text := n.expand(testutil.PodYAML("web", `
  terminationGracePeriodSeconds: 1
  containers: [{name: web, image: HELLO}]
`) + "---\n" + simple("client", "until wget -qO /dev/null http://web:8080/; do sleep 0.1; done; echo reached; sleep 1000"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	defer server.Close()
	port := testutil.FreePort(t)
	out, cmd, ended := n.playFiles("--follow", "--publish", fmt.Sprintf("%d:8080", port), server.URL+"/pods.yaml")
	out.has(t, "client/main | reached\n")
	out.has(t, fmt.Sprintf("port %d of this machine leads to web\n", port))
	answers(t, port)
	testutil.Must(t, cmd.Process.Signal(syscall.SIGINT))
	endsWith(t, ended, 0)
	n.nothingLeft()
}

// TestPlayDetach: play --detach returns when the pod is ready. Another play of the same name fails. With
// --replace, it replaces the first play.
func TestPlayDetach(t *testing.T) {
	n := prepareNode(t)
	detach := func(text string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), n.program,
			n.playArgs("play", append(args, "--detach", "--follow", "-")...)...)
		cmd.Stdin = strings.NewReader(n.expand(text))
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	// down fails if the test passes, because the play has ended then.
	t.Cleanup(func() { _ = exec.Command(n.program, n.playArgs("down")...).Run() })
	output, err := detach(simple("pod", "echo first; sleep 1000"))
	testutil.Require(t, err == nil && strings.Contains(output, "pod | Ready") && strings.Contains(output, "goes on as"),
		"%v\n%s", err, output)
	log := n.logs + ".log"
	fileHas(t, log, "pod/main | first\n")
	output, err = detach(simple("pod", "echo second; sleep 1000"), "--replace")
	testutil.Require(t, err == nil, "%v\n%s", err, output)
	fileHas(t, log, "pod/main | second\n")
	n.down()
	n.nothingLeft()
	testutil.Gone(t, log, "the log is left")

	out, _, _ := n.play(simple("pod", "sleep 1000"))
	out.has(t, "pod | Ready")
	output, err = detach(simple("pod", "sleep 1000"))
	testutil.Assert(t, err != nil && strings.Contains(output, "the new process ended: exit status 1"), "%v\n%s", err,
		output)
	n.down()
}

// TestPlayToItsEnd: a play ends when all its pods have ended. The play's exit code is 1 if a container failed.
func TestPlayToItsEnd(t *testing.T) {
	n := prepareNode(t)
	once := func(code int) string {
		return simple("once", fmt.Sprintf("echo ran; exit %d", code), "restartPolicy: Never")
	}
	out, _, ended := n.play(once(0), "--follow")
	endsWith(t, ended, 0)
	out.has(t, "once/main | ran\n")
	n.nothingLeft()
	out, _, ended = n.play(once(3))
	endsWith(t, ended, 1)
	out.has(t, "main: exit code 3")
	n.nothingLeft()
}

// TestPlayJob runs the pods of a job beside each other. The play ends with them.
func TestPlayJob(t *testing.T) {
	n := prepareNode(t)
	out, _, ended := n.play(`
apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: OnFailure
      volumes: [{name: work, hostPath: {path: SCRATCH}}]
      containers:
      - name: main
        image: SHELL
        command:
        - sh
        - -c
        - |
          [ -e /scratch/$(hostname) ] || { touch /scratch/$(hostname); exit 1; }
          until [ $(ls /scratch | wc -l) = 2 ]; do sleep 0.1; done
          echo done
        volumeMounts: [{name: work, mountPath: /scratch}]
`, "--follow")
	endsWith(t, ended, 0)
	out.has(t, "task-1/main | done\n")
	out.has(t, "task-2/main | done\n")
	n.nothingLeft()
}

// TestPlayKeepsClaims: the files of a claim are there in the next play. down --force removes them, except while another
// play has them mounted.
func TestPlayKeepsClaims(t *testing.T) {
	n := prepareNode(t)
	force := func(args ...string) (string, error) {
		args = n.playArgs("down", append(args, "--force", filepath.Join(n.dir, "play.yaml"))...)
		output, err := exec.CommandContext(t.Context(), n.program, args...).CombinedOutput()
		return string(output), err
	}
	text := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n" +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n" +
		testutil.PodYAML("pod", `
  restartPolicy: Never
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo x >> /data/runs; echo runs $(wc -l < /data/runs)"]
    volumeMounts: [{name: data, mountPath: /data}]
`)
	for i := range 2 {
		out, _, ended := n.play(text, "--follow")
		endsWith(t, ended, 0)
		out.has(t, fmt.Sprintf("pod/main | runs %d\n", i+1))
		n.nothingLeft()
	}
	forever := strings.NewReplacer("; echo", "; sleep 1000; echo", "mountPath: /data",
		"mountPath: /data, subPath: part")
	out, _, ended := n.play(forever.Replace(text))
	out.has(t, "pod | Ready")
	output, err := force("--name", "other", "--root-dir", filepath.Join(n.dir, "other"))
	testutil.Assert(t, err != nil && strings.Contains(output, "claim default/data: process "), "used: %v\n%s", err,
		output)
	output, err = force()
	testutil.Require(t, err == nil, "down --force: %v\n%s", err, output)
	endsWith(t, ended, 0)
	out, _, ended = n.play(text, "--follow")
	endsWith(t, ended, 0)
	out.has(t, "pod/main | runs 1\n")
}

// TestGenerate makes a manifest from a container of the engine. A play of the manifest finds the container's files.
func TestGenerate(t *testing.T) {
	criadapterOnly(t)
	n := prepareNode(t)
	docker := func(args ...string) {
		t.Helper()
		engine.Docker(t, n.env.DockerHost, args...)
	}
	name := strings.ToLower(n.name)
	docker("volume", "create", name)
	t.Cleanup(func() {
		_ = exec.Command("docker", "--host", n.env.DockerHost, "rm", "--force", name).Run() // the test has removed it
		_ = exec.Command("docker", "--host", n.env.DockerHost, "volume", "rm", name).Run()
	})
	docker("run", "--detach", "--name", name, "--volume", name+":/data", "--env", "WORD=$(a) word",
		"--user", "0:1234", "--tmpfs", "/run:size=1m", "--stop-timeout", "1", "--hostname", "made", "--memory", "64m",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--volume", n.scratch()+":/scratch:ro",
		n.env.Image(shell), "sh", "-c", `[ -e /data/file ] || echo kept > /data/file
cat /data/file; echo "$WORD"; hostname; id -g; df -m /run | tail -1 | awk '{print "MiB " $2}'
grep CapBnd /proc/self/status; grep NoNewPrivs /proc/self/status; touch /scratch/x || exec sleep 1000`)
	eventually(t, "the container's file", func() error {
		args := []string{"--host", n.env.DockerHost, "exec", name, "cat", "/data/file"}
		return exec.CommandContext(t.Context(), "docker", args...).Run()
	})
	text, err := exec.CommandContext(t.Context(), n.program, "generate", name, "--docker-endpoint",
		n.env.DockerHost).Output()
	testutil.Require(t, err == nil, "generate: %v", err)
	docker("rm", "--force", name)

	// The manifest has the policy Strict. Before the test of criadapter-oci has ended, the node rejects such a pod.
	testutil.Until(t, "the runtime has supplementalGroupsPolicy", func() bool {
		status, err := n.cri.Status(t.Context(), false)
		return err == nil && status.GetFeatures().GetSupplementalGroupsPolicy()
	})
	out, cmd, ended := n.play(string(text), "--follow")
	for _, want := range []string{
		"kept", "$(a) word", "made", "1234", "MiB 1", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1",
		"touch: /scratch/x: Read-only file system",
	} {
		out.has(t, name+"/"+name+" | "+want+"\n")
	}
	testutil.Must(t, cmd.Process.Signal(syscall.SIGINT))
	endsWith(t, ended, 0)
	n.nothingLeft()
}

// TestPlaySecondInterrupt: a second interrupt ends the play without waiting for its pods. The output names the pods
// that are left, and the command that removes them.
func TestPlaySecondInterrupt(t *testing.T) {
	n := prepareNode(t)
	out, cmd, ended := n.play(testutil.PodYAML("slow", `
  terminationGracePeriodSeconds: 3600
  volumes: [{name: work, hostPath: {path: SCRATCH}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap 'echo TERM > /scratch/order; until [ -e /scratch/go ]; do sleep 0.1; done; exit' TERM; echo begun; while :; do sleep 0.1; done"]
    volumeMounts: [{name: work, mountPath: /scratch}]
`), "--follow")
	out.has(t, "slow/main | begun")
	for _, want := range []string{"play | ending; Ctrl-C again", "it leaves the pods default/slow-"} {
		testutil.Must(t, cmd.Process.Signal(syscall.SIGINT))
		out.has(t, want)
		n.scratchHas("order", "TERM\n")
	}
	endsWith(t, ended, 1)
	out.has(t, "`kubelet-core down --name "+n.name+"`")
	sandboxes, err := n.cri.ListPodSandbox(t.Context(),
		&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: "play-" + n.name}})
	testutil.Assert(t, err == nil && len(sandboxes) == 1, "sandboxes: %v, %v", sandboxes, err)
	testutil.Must(t, os.WriteFile(filepath.Join(n.scratch(), "go"), nil, 0o644))
	n.down()
	n.nothingLeft()
}

// TestPlayDown: kubelet-core down ends a running play. The command also removes everything that a killed play has left.
func TestPlayDown(t *testing.T) {
	n := prepareNode(t)
	pod := strings.Replace(simple("pod", "trap 'echo bye; exit' TERM; while :; do sleep 0.1; done"),
		"terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 30", 1)
	out, _, ended := n.play(pod, "--follow")
	out.has(t, "pod | Ready")
	n.down()
	endsWith(t, ended, 0)
	out.has(t, "pod/main | bye\n")
	n.nothingLeft()

	out, cmd, ended := n.play(pod)
	out.has(t, "pod | Ready")
	testutil.Must(t, cmd.Process.Kill())
	<-ended
	n.down()
	n.nothingLeft()
	output, err := exec.CommandContext(t.Context(), n.program, n.playArgs("down")...).CombinedOutput()
	testutil.Assert(t, err != nil && strings.Contains(string(output), "nothing is played"),
		"down of nothing: %v\n%s", err, output)
}
