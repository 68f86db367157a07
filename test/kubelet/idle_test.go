package kubelet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestIdlePodCostsListsAlone counts the CRI calls of a node whose only pod does nothing, with the runtime's events and
// without them: all are about the whole node.
func TestIdlePodCostsListsAlone(t *testing.T) {
	criadapterOnly(t)
	for name, flags := range map[string][]string{"events": nil, "lists": {"--no-runtime-events"}} {
		t.Run(name, func(t *testing.T) {
			n := prepareNode(t, append(flags, "--sync-frequency", "2s")...)
			server := n.server.(criadapter)
			socket := filepath.Join(server.Dir, "m.sock")
			server.AddFlags("--metrics-bind-addr=unix://" + socket)
			if err := server.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.start()
			n.write("pod.yaml", simple("pod", "sleep 1000"))
			pod := n.ready("pod")
			if name == "events" {
				n.evented(1)
			}
			settle(t, socket)
			before := calls(t, socket)
			time.Sleep(15 * time.Second) // logs are looked at each ten seconds
			after := calls(t, socket)
			allowed := []string{"Status", "StreamPodSandboxStats", "StreamPodSandboxes", "StreamContainers"}
			for _, method := range slices.Sorted(maps.Keys(after)) {
				if more := after[method] - before[method]; more > 0 && !slices.Contains(allowed, method) {
					t.Errorf("%s was called %d times", method, more)
				}
			}
			if after["StreamPodSandboxes"] == before["StreamPodSandboxes"] {
				t.Errorf("the garbage collection, each two seconds, lists nothing: %v", after)
			}
			n.killContainers(id(pod, "main"))
			n.restarted("pod", "main", 1)
		})
	}
}

// settle waits until two seconds went by without a question for a pod's status.
func settle(t *testing.T, socket string) {
	t.Helper()
	for last, deadline := -1, time.Now().Add(patience); ; time.Sleep(2 * time.Second) {
		now := calls(t, socket)["PodSandboxStatus"]
		if now == last {
			return
		}
		if last = now; time.Now().After(deadline) {
			t.Fatalf("the status of the pod is asked for again and again: %d times", now)
		}
	}
}

// rpcLine is a line of the server's metrics that counts the calls of a method with one outcome.
var rpcLine = regexp.MustCompile(`(?m)^criadapter_rpc_requests_total\{.*method="(\w+)".*\} (\d+)$`)

// calls are how often each CRI method was called since the server's start.
func calls(t *testing.T, socket string) map[string]int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	counts := map[string]int{}
	eventually(t, "the server's metrics", func() error {
		answer, err := client.Get("http://criadapter/metrics")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		clear(counts)
		for _, line := range rpcLine.FindAllStringSubmatch(string(text), -1) {
			count, err := strconv.Atoi(line[2])
			if err != nil {
				return err
			}
			counts[line[1]] += count
		}
		if len(counts) == 0 {
			return fmt.Errorf("no calls in\n%.500s", text)
		}
		return nil
	})
	return counts
}
