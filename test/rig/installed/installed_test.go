package installed

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// engine answers as a Docker Engine whose default bridge uses that device. With an empty device it has no default
// bridge.
func engine(t *testing.T, device string) (host string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.sock")
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			answer = map[string]any{"DockerRootDir": "/data"}
		case strings.HasSuffix(r.URL.Path, "/networks/bridge") && device != "":
			answer = map[string]any{"Name": "bridge", "Options": map[string]string{bridgeDevice: device}}
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.41")
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"message": "network bridge not found"}
		}
		_ = json.NewEncoder(w).Encode(answer) // the client reports an incomplete answer
	})}
	t.Cleanup(func() { server.Close() })
	go func() { _ = server.Serve(listener) }() // ends with Close
	return "unix://" + path
}

func TestDataRoot(t *testing.T) {
	for name, c := range map[string]struct{ host, want string }{
		"a bridge":      {engine(t, "lo"), ""},
		"no bridge":     {engine(t, ""), ""},
		"a lost bridge": {engine(t, "no-such-device"), "restart the engine"},
		"not running":   {"unix:///no/such/socket", "start it"},
		"over TCP":      {"tcp://127.0.0.1:2375", "unix socket"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := DataRoot(t.Context(), c.host)
			switch {
			case c.want == "" && (err != nil || root != "/data"):
				t.Errorf("got %q, %v", root, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
