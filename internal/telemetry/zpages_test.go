package telemetry

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestZPages(t *testing.T) {
	level := "info"
	s := serve(t, ServerOptions{
		Metrics: NewMetrics(MetricsOptions{Version: "v1.2.3"}), Ready: func() error { return nil },
		Flags:    func() map[string]string { return map[string]string{"log-level": level, "cni-gc": "true"} },
		Profiles: true,
	})
	ask := func(path, accept string) (int, string, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://metrics"+path, nil)
		testutil.Must(t, err)
		if accept != "" {
			request.Header.Set("Accept", accept)
		}
		response, err := s.client.Do(request)
		testutil.Must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		testutil.Must(t, err)
		return response.StatusCode, response.Header.Get("Content-Type"), string(body)
	}
	const header = " for debugging purposes only.\n\n"
	for _, accept := range []string{"", "text/plain", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8"} {
		status, kind, body := ask("/statusz", accept)
		testutil.Assert(t, status == 200 && kind == "text/plain; charset=utf-8" &&
			strings.HasPrefix(body, "\ncriadapter statusz\nWarning: ") && strings.Contains(body, header),
			"%q: %d %s %s", accept, status, kind, body)
		for _, want := range []string{"Started: ", "Up: 0 hr 00 min ", "Go version: go", "Binary version: v1.2.3\n",
			"Paths: /debug /flagz /healthz /metrics /readyz /statusz\n"} {
			testutil.Assert(t, strings.Contains(body, want), "no %q in %s", want, body)
		}
	}
	if _, _, body := ask("/flagz", ""); !strings.HasPrefix(body, "\ncriadapter flagz\n") ||
		!strings.HasSuffix(body, header+"cni-gc=true\nlog-level=info\n") {
		t.Errorf("flags: %s", body)
	}
	var status statusPage
	code, kind, body := ask("/statusz", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz")
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != 200 || kind != "application/json" {
		t.Fatalf("%d %s %s: %v", code, kind, body, err)
	}
	testutil.Assert(t, status.Kind == "Statusz" && status.APIVersion == "config.k8s.io/v1beta1" &&
		status.Metadata["name"] == "criadapter" && status.BinaryVersion == "v1.2.3" &&
		time.Since(status.StartTime) <= time.Hour,
		"got %+v", status)
	level = "debug" // by a reload
	var flags flagsPage
	if _, _, body := ask("/flagz",
		"application/json;v=v1beta1;g=config.k8s.io;as=Flagz"); json.Unmarshal([]byte(body), &flags) != nil ||
		flags.Kind != "Flagz" || flags.Flags["log-level"] != "debug" {
		t.Errorf("got %s", body)
	}
	for _, accept := range []string{"application/json", "application/json;g=config.k8s.io;v=v1;as=Statusz",
		"application/yaml", ";"} {
		if code, _, body := ask("/statusz", accept); code != http.StatusNotAcceptable ||
			!strings.Contains(body, "as=Statusz") {
			t.Errorf("%q: %d %s", accept, code, body)
		}
	}
}
