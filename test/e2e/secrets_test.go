package e2e

import (
	"encoding/base64"
	"net/http"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestSecretsStayWithTheirContainers hands out secrets in every way that a client has, to requests that work and to
// ones that fail: none is in the log, whatever its level, in a metric or in a trace.
func TestSecretsStayWithTheirContainers(t *testing.T) {
	const secret = "open-sesame-4711"
	env := rigenv.Require(t)
	e, traces := newEndpoint(t), collect(t)
	server := adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{
		e.flag(), "--log-level=trace", "--tracing-endpoint=http://" + traces.address, "--tracing-sampling-rate-per-million=1000000",
	}})
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
	for _, auth := range []*runtimeapi.AuthConfig{{Username: "user", Password: secret}, {Auth: encoded}} {
		private := &runtimeapi.ImageSpec{Image: env.AuthRegistry + "/test/crictl-account:latest"}
		if _, err := server.Images.PullImage(t.Context(), private, auth, nil); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("a pull with a wrong password: %v", err)
		}
	}
	image := &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")}
	_, err := server.Images.PullImage(t.Context(), image, nil, nil)
	check(t, err)

	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "secrets", Namespace: "e2e", Uid: "secrets-uid"},
	}
	pod, err := server.Runtime.RunPodSandbox(t.Context(), config, "")
	check(t, err)
	create := func(name string, command ...string) string {
		id, err := server.Runtime.CreateContainer(t.Context(), pod, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: image, Command: command,
			Envs: []*runtimeapi.KeyValue{{Key: "WORD", Value: []byte(secret)}},
		}, config)
		check(t, err)
		return id
	}
	if err := server.Runtime.StartContainer(t.Context(), create("fails", "/no/such/program", secret)); err == nil {
		t.Error("a program that does not exist was started")
	}
	works := create("works", "sh", "-c", "sleep 1000 # "+secret)
	check(t, server.Runtime.StartContainer(t.Context(), works))
	stdout, _, err := server.Runtime.ExecSync(t.Context(), works, []string{"sh", "-c", "echo $WORD " + secret}, time.Minute)
	check(t, err)
	same(t, "output", string(stdout), secret+" "+secret+"\n")
	if _, _, err := server.Runtime.ExecSync(t.Context(), works, []string{"sh", "-c", "sleep 1000 # " + secret}, time.Second); err == nil {
		t.Error("a command that takes too long is no error")
	}
	answer, err := server.Runtime.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: works, Cmd: []string{"echo", secret}, Stdout: true})
	check(t, err)
	check(t, errorsOf(server.Runtime.StopPodSandbox(t.Context(), pod), server.Runtime.RemovePodSandbox(t.Context(), pod)))

	status, metrics, err := e.get("/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatalf("/metrics: %d, %v", status, err)
	}
	check(t, server.Stop(t.Context())) // sends the last spans
	log, err := os.ReadFile(server.LogPath)
	check(t, err)
	spans := traces.text()
	for where, text := range map[string]string{"the log": string(log), "the metrics": metrics, "the traces": spans} {
		if !strings.Contains(text, "ExecSync") {
			t.Errorf("%s tell of no ExecSync, so that nothing is proved", where)
		}
		for what, hidden := range map[string]string{"the secret": secret, "the encoded account": encoded, "a session's token": path.Base(answer.GetUrl())} {
			if at := strings.Index(text, hidden); at >= 0 {
				t.Errorf("%s: %s is there: …%s…", where, what, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}

// text is all spans.
func (c *collected) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	for _, span := range c.spans {
		text.WriteString(prototext.Format(span))
	}
	return text.String()
}
