package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// command runs a command of the server's program with the server's settings and decodes what it prints.
func command[T any](t *testing.T, env rigenv.Env, s *adapter.Server, name string) (answer T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), env.Criadapter,
		append([]string{name, "-o", "json"}, settings(env, s)...)...)
	output, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) {
		t.Fatalf("%s: %v: %s", name, err, output)
	}
	err = json.Unmarshal(output, &answer)
	testutil.Require(t, err == nil, "%s: %v: %s", name, err, output)
	return answer
}

// settings are the settings of a server, as flags.
func settings(env rigenv.Env, s *adapter.Server) []string {
	return []string{
		"--container-runtime-endpoint=" + s.Endpoint, "--docker-endpoint=" + env.DockerHost,
		"--root-directory=" + s.RootDir,
		"--cni-conf-dir=" + s.CNIConfDir, "--cni-bin-dir=" + env.CNIBinDir, "--cni-cache-dir=" + s.CNICacheDir,
	}
}

// TestDoctor checks a node with two pods that have host ports. Only one pod has a sandbox container. After the test
// kills the server and removes that container, the check must list that pod's remains. The restarted server must remove
// them.
func TestDoctor(t *testing.T) {
	env := rigenv.Require(t)
	s := adapter.ForTest(t, adapter.Options{Env: env})
	const planted = "hunter2hunter2"
	name := rigenv.Unique("doctor")
	id, err := s.Runtime.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Annotations: map[string]string{"example.com/password": planted},
		Labels:      map[string]string{"note": planted},
		PortMappings: []*runtimeapi.PortMapping{
			{Protocol: runtimeapi.Protocol_TCP, ContainerPort: 80, HostPort: 18080}},
		// The containers share a PID namespace, so the pod gets a sandbox container. The test removes it below.
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{}},
		},
	}, "")
	testutil.Must(t, err)
	// Like pods in production, this pod has no sandbox container.
	kernel := rigenv.Unique("doctor-kernel")
	other, err := s.Runtime.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: kernel, Namespace: "default", Uid: kernel},
		PortMappings: []*runtimeapi.PortMapping{
			{Protocol: runtimeapi.Protocol_TCP, ContainerPort: 80, HostPort: 18081}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}}},
	}, "")
	testutil.Must(t, err)
	// left returns, for each thing that a pod has left behind, the name of the check that found it. A lease has no pod
	// id, so all leases count.
	left := func(id string) (names []string) {
		for _, f := range command[checklist.Report](t, env, s, "check").Findings {
			for _, thing := range f.Things {
				if strings.Contains(thing, id[:32]) || f.Check == "addresses" {
					names = append(names, f.Check)
				}
			}
		}
		return names
	}
	report := command[checklist.Report](t, env, s, "check")
	for _, f := range report.Findings {
		healthy := slices.Contains(
			[]string{"engine", "CNI configuration", "plugin bridge", "plugin host-local", "plugin portmap",
				"CRI socket", "rights"}, f.Check)
		// A machine without CAP_SYS_RESOURCE cannot give it to the rig either.
		lacks := f.Check == "rights" && !env.NegativeOOM && strings.Contains(f.Text, "CAP_SYS_RESOURCE")
		if healthy && f.Status != "ok" && !lacks {
			t.Errorf("%+v", f)
		}
	}
	for _, pod := range []string{id, other} {
		got := left(pod)
		testutil.Assert(t, len(got) == 0, "the check calls a running pod left behind: %q", got)
	}
	answer := command[status.Answer](t, env, s, "status")
	testutil.Assert(t, answer.Ready() && answer.Report != nil && answer.Report.Pods["ready"] == 2 &&
		!answer.Report.LastEvent.IsZero() && answer.Engine != nil,
		"got %+v, %+v", answer, answer.Report)
	archive := filepath.Join(s.Dir, "bug.tar.gz")
	collect := exec.CommandContext(t.Context(), env.Criadapter,
		append([]string{"debug", "bundle", "--file=" + archive, "--log-file=" + s.LogPath}, settings(env, s)...)...)
	output, err := collect.CombinedOutput()
	testutil.Require(t, err == nil, "%v: %s", err, output)
	content, err := exec.CommandContext(t.Context(), "tar", "-xzOf", archive).Output()
	if err != nil || !strings.Contains(string(content), `"id": "`+id) || strings.Contains(string(content), planted) {
		t.Errorf("the bundle lacks the pod, or has what its owner wrote: %v", err)
	}

	s.Kill()
	engine.Docker(t, env.DockerHost, "rm", "-f", id)
	got, want := left(id), []string{"network namespaces", "CNI attachments", "records", "addresses", "host ports"}
	testutil.Assert(t, slices.Equal(got, want), "left behind: %q, want %q", got, want)
	got = left(other)
	testutil.Assert(t, slices.Equal(got, []string{"addresses"}), "left behind by the running pod: %q", got)
	testutil.Must(t, s.Start(t.Context()))
	testutil.Eventually(t, func() error { return s.Runtime.RemovePodSandbox(t.Context(), id) })
	got = left(id)
	testutil.Assert(t, len(got) == 0, "still left behind: %q", got)
}
