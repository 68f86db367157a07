package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	utilexec "k8s.io/utils/exec"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodeapi"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// kubeletAPI is a client of a kubelet's API. The API serves the runtime under test and the pods of a kubelet-core.
type kubeletAPI struct {
	t      *testing.T
	config *rest.Config
	http   *http.Client
}

// serveAPI starts a node with apiPod, and serves its API until the test ends. It returns when the pod is ready.
func serveAPI(t *testing.T) (*node, *kubeletAPI, *v1.Pod) {
	t.Helper()
	n := newNode(t)
	pki := filepath.Join(n.dir, "pki")
	testutil.Must(t, os.Mkdir(pki, 0o700))
	authority, err := controlplane.NewAuthority(pki, "clients")
	testutil.Must(t, err)
	client, err := authority.Client("kube-apiserver-kubelet-client", "system:masters")
	testutil.Must(t, err)
	runtime, err := cri.Connect(t.Context(), cri.Options{Endpoint: n.server.Endpoint(), Owner: n.name})
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, runtime.Close(context.Background()))
	})
	api, err := nodeapi.ListenTLS(nodeapi.APIOptions{
		Address: "127.0.0.1:0", CertDir: pki, NodeName: n.name,
		IPs:          func() []string { return []string{"127.0.0.1"} },
		ClientCAFile: authority.CAFile, Runtime: runtime,
		Users: []string{"kube-apiserver-kubelet-client"},
		Reads: nodeapi.Reads{
			Config: nodeapi.Config{Node: n.name, RootDir: n.root}, Pods: n.podList, Healthy: func() error {
				return nil
			},
			Stats: runtime, Selector: map[string]string{model.LabelOwner: n.name}, Evented: func() bool { return true },
		},
	})
	testutil.Must(t, err)
	testutil.Background(t, api.Run)
	config := &rest.Config{Host: "https://" + api.Address(), TLSClientConfig: rest.TLSClientConfig{
		CertFile: client.CertFile, KeyFile: client.KeyFile, CAFile: filepath.Join(pki, "kubelet.crt"),
		ServerName: n.name,
	}}
	asks, err := rest.HTTPClientFor(config)
	testutil.Must(t, err)
	n.write("web.yaml", apiPod)
	return n, &kubeletAPI{t: t, config: config, http: asks}, n.ready("web")
}

// podList returns the kubelet's pods for the API. It returns none while the kubelet does not answer.
func (n *node) podList() []*v1.Pod {
	listed, err := n.pods()
	if err != nil {
		n.t.Logf("the kubelet's pods: %v", err)
	}
	var pods []*v1.Pod
	for i := range listed {
		pods = append(pods, &listed[i])
	}
	return pods
}

// ask sends a request without a body to a path of the API. It returns the answer's body and status code.
func (a *kubeletAPI) ask(method, path string) (string, int) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.config.Host+path, nil)
	testutil.Must(a.t, err)
	answer, err := a.http.Do(request)
	testutil.Must(a.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	testutil.Must(a.t, err)
	return string(body), answer.StatusCode
}

func (a *kubeletAPI) url(path string) *url.URL {
	a.t.Helper()
	parsed, err := url.Parse(a.config.Host + path)
	testutil.Must(a.t, err)
	return parsed
}

// protocol makes an executor that runs a command over SPDY, as API servers do, or over WebSockets, as newer clients do.
type protocol func(a *kubeletAPI, path string) (remotecommand.Executor, error)

func overSPDY(a *kubeletAPI, path string) (remotecommand.Executor, error) {
	return remotecommand.NewSPDYExecutor(a.config, http.MethodPost, a.url(path))
}

func overWebSocket(a *kubeletAPI, path string) (remotecommand.Executor, error) {
	return remotecommand.NewWebSocketExecutor(a.config, http.MethodGet, a.url(path).String())
}

// size is a queue of terminal sizes.
type size chan *remotecommand.TerminalSize

func (s size) Next() *remotecommand.TerminalSize { return <-s }

const apiPod = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo out; echo err >&2; while [ ! -e /tmp/end ]; do sleep 0.1; done; sleep 1; echo bye"]
  - {name: reads, image: SHELL, stdin: true, command: [sh, -c, "while read line; do echo heard $line; done"]}
  - {name: hello, image: HELLO, readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
`

// TestAPICommands runs commands through the kubelet's API, over SPDY and with a plain request.
func TestAPICommands(t *testing.T) {
	_, a, pod := serveAPI(t)
	a.commands(pod, overSPDY)
	body, code := a.ask(http.MethodPost,
		fmt.Sprintf("/run/%s/%s/main?cmd=", pod.Namespace, pod.Name)+url.QueryEscape("echo a word"))
	testutil.Assert(t, body == "a word\n" && code == http.StatusOK, "run: %d %q", code, body)
	body, code = a.ask(http.MethodPost, fmt.Sprintf("/run/%s/%s/main?cmd=false", pod.Namespace, pod.Name))
	testutil.Assert(t, strings.Contains(body, "exited with 1") && code == http.StatusInternalServerError,
		"run: %d %q", code, body)
}

// TestAPICommandsOverWebSocket runs commands as newer clients do.
func TestAPICommandsOverWebSocket(t *testing.T) {
	criadapterOnly(t)
	_, a, pod := serveAPI(t)
	a.commands(pod, overWebSocket)
}

// commands checks commands in a pod's containers over one protocol: output, exit code, input, terminal size, a missing
// program and attach.
func (a *kubeletAPI) commands(pod *v1.Pod, over protocol) {
	a.t.Helper()
	exec := fmt.Sprintf("/exec/%s/%s/main?", pod.Namespace, pod.Name)
	shell := func(script string) string { return exec + "command=sh&command=-c&command=" + url.QueryEscape(script) }
	stdout, stderr, err := a.run(over, shell("echo out; echo err >&2; exit 3")+"&output=1&error=1",
		remotecommand.StreamOptions{})
	var exit utilexec.ExitError
	testutil.Assert(a.t, stdout == "out\n" && stderr == "err\n" && errors.As(err, &exit) && exit.ExitStatus() == 3,
		"exit: %q, %q, %v", stdout, stderr, err)
	much := strings.Repeat("0123456789abcde\n", 1<<16)
	stdout, _, err = a.run(over, exec+"command=cat&input=1&output=1&error=1",
		remotecommand.StreamOptions{Stdin: strings.NewReader(much)})
	testutil.Assert(a.t, stdout == much && err == nil, "%d bytes came back as %d: %v", len(much), len(stdout), err)
	sizes := make(size, 1)
	sizes <- &remotecommand.TerminalSize{Width: 123, Height: 45}
	defer close(sizes)
	stdout, _, err = a.run(over, shell("until stty size | grep '45 123'; do sleep 0.1; done")+
		"&input=1&output=1&tty=1", remotecommand.StreamOptions{
		Stdin: &silent{ctx: a.t.Context()}, Tty: true, TerminalSizeQueue: sizes,
	})
	testutil.Assert(a.t, strings.Contains(stdout, "45 123") && err == nil, "size: %q, %v", stdout, err)
	_, _, err = a.run(over, exec+"command=/no/such/program&output=1&error=1", remotecommand.StreamOptions{})
	testutil.Assert(a.t, err != nil, "a program that is not there was run")
	attached(a.t, "a client", func() (remotecommand.Executor, error) {
		return over(a, fmt.Sprintf("/attach/%s/%s/%s/reads?input=1&output=1&error=1", pod.Namespace, pod.Name, pod.UID))
	})
}

// run runs one command to its end.
func (a *kubeletAPI) run(
	over protocol, path string, opts remotecommand.StreamOptions,
) (stdout, stderr string, err error) {
	a.t.Helper()
	var out, errOut bytes.Buffer
	opts.Stdout = &out
	if !opts.Tty {
		opts.Stderr = &errOut
	}
	executor, err := over(a, path)
	testutil.Must(a.t, err)
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	err = executor.StreamWithContext(ctx, opts)
	return out.String(), errOut.String(), err
}

// silent is an input without data until the test ends.
type silent struct{ ctx context.Context }

func (s *silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, io.EOF
}

// attached sends a line to a container's process, and waits for the answer of the process.
func attached(t *testing.T, line string, executor func() (remotecommand.Executor, error)) {
	t.Helper()
	attach, err := executor()
	testutil.Must(t, err)
	in, feed := io.Pipe()
	out := &output{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := testutil.Go(func() error {
		return attach.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: out})
	})
	fmt.Fprintf(feed, "%s\n", line)
	out.has(t, "heard "+line+"\n")
	cancel()
	feed.Close()
	<-ended // an error does not count, because the client hung up
}

// TestAPIPortForward reaches a port of a pod through the kubelet's API, over SPDY.
func TestAPIPortForward(t *testing.T) {
	_, a, pod := serveAPI(t)
	transport, upgrader, err := spdy.RoundTripperFor(a.config)
	testutil.Must(t, err)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, a.url(portForwardPath(pod)))
	forwarded(t, func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.New(dialer, []string{":8080"}, stop, ready, io.Discard, io.Discard)
	})
}

// TestAPIPortForwardOverWebSocket reaches a port of a pod as newer clients do: SPDY inside a WebSocket.
func TestAPIPortForwardOverWebSocket(t *testing.T) {
	criadapterOnly(t)
	_, a, pod := serveAPI(t)
	dialer, err := portforward.NewSPDYOverWebsocketDialer(a.url(portForwardPath(pod)), a.config)
	testutil.Must(t, err)
	forwarded(t, func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.New(dialer, []string{":8080"}, stop, ready, io.Discard, io.Discard)
	})
}

func portForwardPath(pod *v1.Pod) string {
	return fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name)
}

// forwarded asks the pod's HTTP service five times through one port-forward session.
func forwarded(
	t *testing.T, forward func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error),
) {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := forward(stop, ready)
	testutil.Must(t, err)
	ended := testutil.Go(forwarder.ForwardPorts)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	testutil.Must(t, err)
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 5 {
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
		testutil.Must(t, err)
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		testutil.Assert(t, err == nil && answer.StatusCode == http.StatusOK && len(body) != 0,
			"%s %q, %v", answer.Status, body, err)
	}
	close(stop)
	testutil.Check(t, <-ended)
}

// TestAPILogsAndStats reads logs, the stats summary and resource metrics through the kubelet's API.
func TestAPILogsAndStats(t *testing.T) {
	rigenv.RequireControllers(t, "memory")
	n, a, pod := serveAPI(t)
	logs := fmt.Sprintf("/containerLogs/%s/%s/main", pod.Namespace, pod.Name)
	eventually(t, "the log", func() error {
		if body, code := a.ask(http.MethodGet, logs+"?stream=Stderr"); body != "err\n" || code != http.StatusOK {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.config.Host+logs+"?follow=true&tailLines=0", nil)
	testutil.Must(t, err)
	answer, err := a.http.Do(request)
	testutil.Must(t, err)
	defer answer.Body.Close()
	out := &output{}
	copied := testutil.Go(func() error {
		_, err := io.Copy(out, answer.Body)
		return err
	})
	n.exec(pod, "main", "touch", "/tmp/end")
	out.has(t, "bye\n")
	testutil.Check(t, testutil.Receive(t, copied, "the log is followed beyond the container's end"))
	n.restarted("web", "main", 1)
	eventually(t, "the previous log", func() error {
		if body, code := a.ask(http.MethodGet, logs+"?previous=true&stream=Stdout"); body != "out\nbye\n" ||
			code != http.StatusOK {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})

	var summary statsapi.Summary
	eventually(t, "the stats summary", func() error {
		body, code := a.ask(http.MethodGet, "/stats/summary")
		if err := json.Unmarshal([]byte(body), &summary); err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %q, %v", code, body, err)
		}
		if len(summary.Pods) != 1 || len(summary.Pods[0].Containers) != 3 ||
			summary.Pods[0].Containers[0].Memory == nil || summary.Node.Runtime == nil {
			return errors.New(body)
		}
		return nil
	})
	eventually(t, "the resource metrics, which kubectl top shows", func() error {
		body, code := a.ask(http.MethodGet, "/metrics/resource")
		for _, part := range []string{
			"node_cpu_usage_seconds_total ", "node_memory_working_set_bytes ",
			`pod_memory_working_set_bytes{namespace="default",pod="` + pod.Name + `"} `,
			`container_cpu_usage_seconds_total{container="hello",namespace="default",pod="` + pod.Name + `"} `,
			`container_start_time_seconds{container="main",`, "resource_scrape_error 0",
		} {
			if code != http.StatusOK || !strings.Contains(body, part) {
				return fmt.Errorf("%d, no %s in\n%s", code, part, body)
			}
		}
		return nil
	})
	body, code := a.ask(http.MethodGet, "/runningpods/")
	testutil.Assert(t, code == http.StatusOK && strings.Contains(body, `"uid":"`+string(pod.UID)),
		"running pods: %d %s", code, body)
}

// TestAPIContainerMetrics reads /metrics/cadvisor, which comes from the runtime's ListPodSandboxMetrics.
func TestAPIContainerMetrics(t *testing.T) {
	rigenv.RequireControllers(t, "memory")
	criadapterOnly(t)
	_, a, _ := serveAPI(t)
	body, code := a.ask(http.MethodGet, "/metrics/cadvisor")
	testutil.Assert(t, code == http.StatusOK && strings.Contains(body, "container_memory_working_set_bytes{"),
		"metrics: %d %.500s", code, body)
}
