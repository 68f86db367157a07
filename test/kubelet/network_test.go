package kubelet

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestNetworkNotReady removes the runtime's CNI configuration for a while. Pods on the host's network start, run and
// end, because such a pod may be the add-on that makes the network ready. Other pods wait with an event, and start when
// the configuration is back.
func TestNetworkNotReady(t *testing.T) {
	n := newNode(t)
	aside := filepath.Join(n.dir, "aside.conflist")
	testutil.Must(t, os.Rename(n.server.NetworkConfig(), aside))
	n.says("network is not ready")
	for _, name := range []string{"host", "goes"} {
		n.write(name+".yaml", simple(name, "sleep 1000", "hostNetwork: true"))
	}
	n.write("waits.yaml", simple("waits", "sleep 1000"))
	n.ready("host")
	n.ready("goes")
	event := n.event("waits", "NetworkNotReady")
	testutil.Assert(t, strings.Contains(event.Message, "network is not ready"), "event %q", event.Message)
	n.end("goes")
	pod := n.until("waits", wantPhase(v1.PodPending))
	testutil.Assert(t, status(pod, "main").ContainerID == "", "it runs: %s", states(pod))
	config, err := os.ReadFile(aside)
	testutil.Must(t, err)
	// The file is written, not moved there: containerd does not notice a moved file.
	testutil.Must(t, os.WriteFile(n.server.NetworkConfig(), config, 0o644))
	n.ready("waits")
	n.ready("host")
}

// served fails unless a web server answers with some text.
func served(host string, port int) error {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(fmt.Sprintf("http://%s:%d/", host, port))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || len(body) == 0 {
		return errors.Join(err, fmt.Errorf("%d bytes", len(body)))
	}
	return nil
}

// TestHostPortAfterTheSandboxDied: after a sandbox died, the host port leads to the new sandbox. The iptables rule of
// the dead sandbox would take precedence, so it must be gone.
func TestHostPortAfterTheSandboxDied(t *testing.T) {
	n := newNode(t)
	port := testutil.FreePort(t)
	n.writePod("web", fmt.Sprintf(`
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: HELLO, ports: [{containerPort: 8080, hostPort: %d}]}
`, port))
	pod := n.ready("web")
	// The bridge's address belongs to the machine. On loopback, portmap needs a sysctl that some machines lack.
	address := pod.Status.PodIP[:strings.LastIndex(pod.Status.PodIP, ".")] + ".1"
	answers := func() error { return served(address, port) }
	eventually(t, "the host port answers", answers)
	for range 2 {
		before := n.ready("web")
		n.endSandboxes(pod)
		n.until("web", func(now *v1.Pod) error {
			if id(now, "web") == id(before, "web") {
				return errors.New("the old container")
			}
			return wantReady(now, v1.ConditionTrue)
		})
		eventually(t, "the host port answers again", answers)
	}
}
