package e2e

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestSecretsStayWithTheirContainers sends secrets in registry accounts, commands and variables, with requests that
// work and requests that fail. Even at log level trace, no secret is in the log, in a metric or in a trace. Registry
// accounts are in no file either. The variables of a container are in its pod's record, which only root can read.
func TestSecretsStayWithTheirContainers(t *testing.T) {
	const secret, account = "open-sesame-4711", "password-of-a-registry-0815"
	env := rigenv.Require(t)
	e, traces := newEndpoint(t), grpctest.Collect(t)
	server := adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{
		e.flag(), "--log-level=trace", "--tracing-endpoint=" + traces.Endpoint,
		"--tracing-sampling-rate-per-million=1000000",
	}})
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + account))
	for _, auth := range []*runtimeapi.AuthConfig{{Username: "user", Password: account}, {Auth: encoded}} {
		private := &runtimeapi.ImageSpec{Image: env.AuthRegistry + "/test/crictl-account:latest"}
		_, err := server.Images.PullImage(t.Context(), private, auth, nil)
		testutil.Assert(t, err != nil && !strings.Contains(err.Error(), account), "a pull with a wrong password: %v",
			err)
	}
	image := &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")}
	pull(t, server, image.GetImage())

	name := rigenv.Unique("secrets")
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "e2e", Uid: name},
	}
	pod, err := server.Runtime.RunPodSandbox(t.Context(), config, "")
	testutil.Must(t, err)
	create := func(name string, command ...string) string {
		id, err := server.Runtime.CreateContainer(t.Context(), pod, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: image, Command: command,
			Envs: []*runtimeapi.KeyValue{{Key: "WORD", Value: []byte(secret)}},
		}, config)
		testutil.Must(t, err)
		return id
	}
	err = server.Runtime.StartContainer(t.Context(), create("fails", "/no/such/program", secret))
	testutil.Assert(t, err != nil, "a program that does not exist was started")
	works := create("works", "sh", "-c", "sleep 1000 # "+secret)
	testutil.Must(t, server.Runtime.StartContainer(t.Context(), works))
	stdout, _, err := server.Runtime.ExecSync(t.Context(), works, []string{"sh", "-c", "echo $WORD " + secret},
		time.Minute)
	testutil.Must(t, err)
	same(t, "output", string(stdout), secret+" "+secret+"\n")
	if _, _, err := server.Runtime.ExecSync(t.Context(), works, []string{"sh", "-c", "sleep 1000 # " + secret},
		time.Second); err == nil {
		t.Error("a command that takes too long is not an error")
	}
	answer, err := server.Runtime.Exec(t.Context(),
		&runtimeapi.ExecRequest{ContainerId: works, Cmd: []string{"echo", secret}, Stdout: true})
	testutil.Must(t, err)
	recorded := noneInFiles(t, server.RootDir, account, encoded)
	testutil.Assert(t, strings.Contains(recorded, secret),
		"the record does not have the container's secret, so the test proves nothing")
	removeSandbox(t, server, pod)

	status, metrics, err := e.get("/metrics")
	testutil.Require(t, err == nil && status == http.StatusOK, "/metrics: %d, %v", status, err)
	testutil.Must(t, server.Stop(t.Context())) // sends the last spans
	log := testutil.ReadFile(t, server.LogPath)
	spans := textOf(traces)
	for where, text := range map[string]string{"the log": log, "the metrics": metrics, "the traces": spans} {
		testutil.Assert(t, strings.Contains(text, "ExecSync"),
			"%s do not mention ExecSync, so the test proves nothing", where)
		for what, hidden := range map[string]string{"the secret": secret, "the account": account,
			"the encoded account": encoded, "a session's token": path.Base(answer.GetUrl())} {
			if at := strings.Index(text, hidden); at >= 0 {
				t.Errorf("%s: %s is there: …%s…", where, what, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}

// noneInFiles checks that no file below root has a hidden text, and that only root can read the records of pods. It
// returns the content of all files.
func noneInFiles(t *testing.T, root string, hidden ...string) string {
	t.Helper()
	var all strings.Builder
	testutil.Must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range hidden {
			testutil.Assert(t, !bytes.Contains(content, []byte(text)), "%s has %s", path, text)
		}
		if info, infoErr := entry.Info(); infoErr == nil && strings.HasPrefix(path, filepath.Join(root, "pods")) &&
			info.Mode().Perm() != 0o600 {
			t.Errorf("the record %s is %v", path, info.Mode())
		}
		all.Write(content)
		return err
	}))
	info, err := os.Stat(filepath.Join(root, "pods"))
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o700, "the directory of the records is %v, %v", info, err)
	return all.String()
}

// textOf returns all spans.
func textOf(c *grpctest.Collector) string {
	var text strings.Builder
	for _, span := range c.Spans() {
		text.WriteString(prototext.Format(span))
	}
	return text.String()
}
