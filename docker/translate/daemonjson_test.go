package translate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// settings is the content of a daemon.json.
type settings map[string]any

// daemonJSON is a daemon.json that an administrator may have written, and its effect on pods. Without differs and
// refused, pods stay the same.
type daemonJSON struct {
	name   string
	config settings
	// since is the API version of the oldest engine that knows these settings.
	since string
	// before is the API version of the first engine that no longer knows them.
	before string
	// symlink runs the pod with --container-log-mode=symlink.
	symlink bool
	// refused is a part of the error that refuses such an engine, empty if the engine is accepted.
	refused string
	// differs are the beginnings of lines in a pod's description that may differ, because they show a setting that the
	// administrator may choose.
	differs []string
}

func nonBlocking(driver string) settings {
	return settings{"log-driver": driver,
		"log-opts": map[string]string{"mode": "non-blocking", "max-buffer-size": "4m"}}
}

// daemonJSONs are the settings that reach containers, or may do so on some engine. profiles is a directory with seccomp
// profiles.
func daemonJSONs(env rigenv.Env, profiles string) []daemonJSON {
	return []daemonJSON{
		{name: "local, non-blocking", config: nonBlocking("local"), refused: "max-buffer-size"},
		{name: "local, non-blocking, symlink", config: nonBlocking("local"), symlink: true},
		{name: "json-file, non-blocking", config: nonBlocking("json-file")},
		{name: "json-file, non-blocking, symlink", config: nonBlocking("json-file"), symlink: true,
			refused: "max-buffer-size"},
		{name: "json-file with attributes", symlink: true,
			config: settings{"log-driver": "json-file", "log-opts": map[string]string{
				"mode": "non-blocking", "max-size": "1k", "max-file": "5", "compress": "true", "tag": "{{.ID}}",
				"labels": "evil", "labels-regex": ".*", "env": "EVIL", "env-regex": ".*",
			}}},
		{name: "local", config: settings{"log-driver": "local", "log-opts": map[string]string{
			"mode": "non-blocking", "max-size": "1k", "max-file": "2", "compress": "true",
		}}},
		{name: "no log", config: settings{"log-driver": "none"}},
		{name: "default-ulimits", config: settings{"default-ulimits": map[string]any{
			"nofile": map[string]any{"Name": "nofile", "Soft": 256, "Hard": 512},
			"as":     map[string]any{"Name": "as", "Soft": 16 << 30, "Hard": 16 << 30},
		}}},
		{name: "default-ipc-mode private", config: settings{"default-ipc-mode": "private"}},
		{name: "default-ipc-mode shareable", config: settings{"default-ipc-mode": "shareable"}},
		{name: "default-cgroupns-mode private", config: settings{"default-cgroupns-mode": "private"}},
		{name: "default-cgroupns-mode host", config: settings{"default-cgroupns-mode": "host"}},
		{name: "init", config: settings{"init": true, "init-path": "/bin/true"}},
		{name: "no-new-privileges", config: settings{"no-new-privileges": true}},
		{name: "default-shm-size", config: settings{"default-shm-size": "8M"}},
		{name: "cgroup-parent", config: settings{"cgroup-parent": "/evil"}},
		{name: "cpu-rt", config: settings{"cpu-rt-period": 1000000, "cpu-rt-runtime": 950000}},
		{name: "oom-score-adjust", before: "1.44", config: settings{"oom-score-adjust": -500}},
		{name: "a seccomp profile", config: settings{"seccomp-profile": filepath.Join(profiles, "allow.json")}},
		{name: "an empty seccomp profile", config: settings{"seccomp-profile": filepath.Join(profiles, "empty.json")},
			refused: "seccomp-profile"},
		// Pods are still confined, because they ask for the default profile.
		{name: "seccomp-profile unconfined", since: "1.42", config: settings{"seccomp-profile": "unconfined"},
			differs: []string{"asked "}},
		{name: "systemd", refused: "native.cgroupdriver",
			config: settings{"exec-opts": []string{"native.cgroupdriver=systemd"}}},
		{name: "default-runtime", differs: []string{"runtime "}, config: settings{
			"default-runtime": "other", "runtimes": map[string]any{"other": map[string]any{"path": "runc"}},
		}},
		{name: "dns",
			config: settings{"dns": []string{"192.0.2.1"}, "dns-opts": []string{"ndots:7"},
				"dns-search": []string{"evil.example"}}},
		{name: "network", config: settings{
			"mtu": 1280, "userland-proxy": false, "ip": "127.0.0.1", "ip-masq": false,
			"default-address-pools": []any{map[string]any{"base": "10.200.0.0/16", "size": 24}},
		}},
		{name: "host-gateway-ip", config: settings{"host-gateway-ip": "192.0.2.7"}},
		{name: "proxies", since: "1.42",
			config: settings{"proxies": map[string]string{"http-proxy": "http://192.0.2.9:1", "no-proxy": "*"}}},
		{name: "selinux-enabled", config: settings{"selinux-enabled": true}},
		{name: "live-restore", config: settings{"live-restore": true, "shutdown-timeout": 3}},
		{name: "labels",
			config: settings{"labels": []string{"evil=yes"}, "node-generic-resources": []string{"evil=1"}}},
		{name: "pulls", config: settings{
			"max-concurrent-downloads": 1, "max-concurrent-uploads": 1, "max-download-attempts": 1,
			"insecure-registries": []string{"registry.example"}, "registry-mirrors": []string{"http://127.0.0.1:1"},
		}},
		{name: "copied layers", config: settings{"storage-driver": engine.CopyDriver(env)},
			differs: []string{"mount / "}},
		{name: "storage-opts", before: "1.52",
			config: settings{"storage-opts": []string{"overlay2.override_kernel_check=true"}}},
		{name: "log-level",
			config: settings{"log-level": "error", "debug": true, "raw-logs": true, "experimental": true}},
		// 29.0 to 29.2 have this as their default.
		{name: "min-api-version", since: "1.52", config: settings{"min-api-version": "1.44"}},
		{name: "features", config: settings{"features": map[string]bool{"buildkit": true}}},
	}
}

// TestDaemonJSON runs a pod on an engine with each daemon.json, and compares it with a pod on an engine without
// settings.
func TestDaemonJSON(t *testing.T) {
	env := rigenv.Require(t)
	plain := map[bool]string{}
	for _, symlink := range []bool{false, true} {
		n, err := daemonNode(t, env, daemonJSON{symlink: symlink})
		testutil.Must(t, err)
		plain[symlink] = n.describePod(symlink)
	}
	newest := newNode(t, env, env.DockerHost).features
	for _, row := range daemonJSONs(env, seccompProfiles(t)) {
		t.Run(row.name, func(t *testing.T) {
			if row.since != "" && !newest.Supports(row.since) {
				t.Logf("this engine does not know the setting of API %s yet", row.since)
				return
			}
			if row.before != "" && newest.Supports(row.before) {
				t.Logf("this engine no longer knows the setting, which went with API %s", row.before)
				return
			}
			n, err := daemonNode(t, env, row)
			if row.refused != "" {
				testutil.Assert(t, err != nil && strings.Contains(err.Error(), row.refused),
					"the engine is refused with %v, want a sentence with %s", err, row.refused)
				return
			}
			testutil.Must(t, err)
			compareLines(t, n.describePod(row.symlink), plain[row.symlink], row.differs)
		})
	}
}

// seccompProfiles writes a profile that allows everything, and an empty profile.
func seccompProfiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"allow.json": `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}`,
		"empty.json": "{}"} {
		testutil.WriteFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

// daemonNode starts an engine with a daemon.json and connects to it. The error
// is the engine's refusal.
func daemonNode(t *testing.T, env rigenv.Env, row daemonJSON) (*node, error) {
	t.Helper()
	e := engine.ForTest(t, engine.Options{Env: env, Config: row.config})
	client, err := docker.Dial(docker.Options{Host: e.Host(), LogDriver: translate.LogDriver(row.symlink)})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	n := &node{T: t, engine: client, env: env}
	if n.features, err = client.Features(n.context()); err != nil {
		return nil, err
	}
	return n, client.PullImage(n.context(), env.Image(evilImage), docker.PullOptions{})
}

// describePod runs a pod and returns lines that describe its sandbox and its container. The same pod has the same lines
// on any engine.
func (n *node) describePod(symlink bool) string {
	n.Helper()
	pod, app := n.pod(), n.app()
	pod.Metadata.Uid = "the-uid"
	app.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{
		ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	sandbox := n.start(n.sandboxSpec(evilImage, pod, n.features))
	spec, err := translate.Container(translate.ContainerInput{
		Config: app, Sandbox: translate.SandboxRef{ID: sandbox.ID, Config: pod}, ImageID: n.env.Image(evilImage),
		Features: n.features, ReadProfile: os.ReadFile, EngineLogOnly: symlink,
	})
	testutil.Must(n, err)
	running := n.start(spec)
	text := describe(n, "sandbox: ", sandbox) + describe(n, "container: ", running)
	names := strings.NewReplacer(sandbox.ID, "SANDBOX", running.ID, "CONTAINER", sandbox.ID[:12], "SANDBOX",
		running.ID[:12], "CONTAINER")
	return names.Replace(overlayPaths.ReplaceAllString(text, "$1=…"))
}

// overlayPaths are the layers of a container's root.
var overlayPaths = regexp.MustCompile(`(lowerdir|upperdir|workdir)=[^, \n]*`)

func describe(n *node, who string, c *container.InspectResponse) string {
	n.Helper()
	host := *c.HostConfig
	runtime := host.Runtime
	host.Runtime = ""
	host.Annotations = maps.Clone(host.Annotations)
	for key, value := range host.Annotations { // the shim's group ends with the runtime's name
		host.Annotations[key] = strings.TrimSuffix(value, "/"+runtime)
	}
	asked, err := json.Marshal(host)
	testutil.Must(n, err)
	pid := c.State.Pid
	// Right after a start the process may still be the OCI runtime, which becomes the container's process. In between
	// it has no command line.
	testutil.Eventually(n.T, func() error {
		comm, line := readProc(n.T, pid, "comm"), readProc(n.T, pid, "cmdline")
		if strings.HasPrefix(comm, "runc") || line == "" {
			return fmt.Errorf("process %s with the command line %q", comm, line)
		}
		return nil
	})
	lines := []string{"asked " + string(asked), "runtime " + runtime,
		"oom_score_adj " + readProc(n.T, pid, "oom_score_adj")}
	for _, field := range []string{"NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Groups",
		"Uid", "Gid"} {
		lines = append(lines, field+" "+statusField(n.T, pid, field))
	}
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		lines = append(lines,
			fmt.Sprintf("own %s namespace: %t", kind, namespace(n.T, pid, kind) != namespace(n.T, os.Getpid(), kind)))
	}
	for _, file := range []string{"limits", "cgroup", "environ", "cmdline", "root/etc/resolv.conf", "root/etc/hosts"} {
		for line := range strings.Lines(readProc(n.T, pid, file)) {
			lines = append(lines, file+" "+strings.TrimSpace(strings.ReplaceAll(line, "\x00", " ")))
		}
	}
	for line := range strings.Lines(readProc(n.T, pid, "mountinfo")) {
		fields := strings.Fields(line)
		end := slices.Index(fields, "-")
		lines = append(lines, fmt.Sprintf("mount %s %s %s", fields[4], fields[5], strings.Join(fields[end+1:], " ")))
	}
	for i, line := range lines {
		lines[i] = who + line
	}
	return strings.Join(lines, "\n") + "\n"
}

// compareLines reports the lines that are in one description only.
func compareLines(t *testing.T, got, want string, differs []string) {
	t.Helper()
	set := func(text string) map[string]bool {
		out := map[string]bool{}
		for line := range strings.Lines(text) {
			_, what, _ := strings.Cut(line, ": ")
			if !slices.ContainsFunc(differs, func(prefix string) bool { return strings.HasPrefix(what, prefix) }) {
				out[strings.TrimSpace(line)] = true
			}
		}
		return out
	}
	gotLines, wantLines := set(got), set(want)
	for _, line := range slices.Sorted(maps.Keys(gotLines)) {
		testutil.Assert(t, wantLines[line], "got  %s", line)
	}
	for _, line := range slices.Sorted(maps.Keys(wantLines)) {
		testutil.Assert(t, gotLines[line], "want %s", line)
	}
}
