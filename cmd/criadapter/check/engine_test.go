package check

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

// engineAt serves a fake Docker Engine 20.10 at a socket. bridge has the options of the engine's default bridge, and is
// empty for an engine without a default bridge. changes returns the requests that would have changed the engine.
func engineAt(t *testing.T, socket, bridge string) (changes func() []string) {
	root, err := json.Marshal(t.TempDir())
	testutil.Must(t, err)
	answers := map[string]string{
		"/version": `{"Version":"20.10.24","Os":"linux","Arch":"amd64"}`,
		"/info": `{"OperatingSystem":"Debian","CgroupVersion":"2","CgroupDriver":"cgroupfs","DefaultRuntime":"runc","DockerRootDir":` + string(root) + `,
			"Runtimes":{"runc":{"path":"runc"},"criadapter":{"path":"/usr/bin/criadapter-oci","runtimeArgs":["--criadapter-notes","/srv/notes"]}}}`,
		"/containers/json": `[]`,
	}
	if bridge != "" {
		answers["/networks/bridge"] = `{"Name":"bridge","Options":` + bridge + `}`
	}
	var mu sync.Mutex
	var changing []string
	listener, err := net.Listen("unix", socket)
	testutil.Must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			mu.Lock()
			changing = append(changing, r.Method+" "+r.URL.Path)
			mu.Unlock()
		}
		answer, found := answers[strings.TrimPrefix(r.URL.Path, "/v1.41")]
		if !found && r.URL.Path != "/_ping" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message":"there is none"}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return func() []string { mu.Lock(); defer mu.Unlock(); return changing }
}

// The check does not connect to a socket if systemd would then start the engine.
func TestStoppedEngineIsNotStarted(t *testing.T) {
	cfg, dir := emptyNode(t)
	listener, err := net.Listen("unix", dir+"/docker.sock")
	testutil.Must(t, err)
	accepted := make(chan error, 1)
	go func() {
		_, err := listener.Accept()
		accepted <- err
	}()
	f := facts{Config: cfg}
	found := gatherEngine(t.Context(), &f, errors.New("systemd listens there"))
	testutil.Assert(t, f.EngineErr != nil && errors.Is(found.err, f.EngineErr), "%v, %v", f.EngineErr, found.err)
	testutil.Must(t, listener.Close())
	testutil.FailsWith(t, <-accepted, net.ErrClosed, "the check connected to the socket")
}

// The check asks the engine the same questions as the server: an engine that refuses pods on its bridge does not pass.
func TestEngine(t *testing.T) {
	for name, c := range map[string]struct {
		plugin, bridge string
		line           string
		status         checklist.Outcome
		text           string
	}{
		"on a bridge": {config.NetworkBridge, `{}`, "engine", checklist.OK, "20.10.24"},
		"on a bridge without icc": {config.NetworkBridge, `{"com.docker.network.bridge.enable_icc":"false"}`,
			"network", checklist.Fail, "icc: false"},
		"on no bridge":             {config.NetworkBridge, "", "network", checklist.Fail, "bridge: none"},
		"by CNI, without a bridge": {config.NetworkCNI, "", "engine", checklist.OK, "20.10.24"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := emptyNode(t)
			dir, err := os.MkdirTemp("", "check") // a socket's path is short
			testutil.Must(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			cfg.NetworkPlugin, cfg.DockerEndpoint = c.plugin, "unix://"+dir+"/s"
			changes := engineAt(t, dir+"/s", c.bridge)
			report := judgeNode(gather(t.Context(), Options{Config: cfg}))
			f := find(t, report, c.line)
			testutil.Assert(t, f.Status == c.status && strings.Contains(f.Text, c.text),
				"%+v, want %s with %q", f, c.status, c.text)
			if c.status == checklist.OK {
				f := find(t, report, "OCI runtime")
				testutil.Assert(t, f.Status == checklist.OK && strings.Contains(f.Text, "notes in /srv/notes"),
					"got %+v", f)
			}
			got := changes()
			testutil.Assert(t, len(got) == 0, "the check sent %q", got)
		})
	}
}
