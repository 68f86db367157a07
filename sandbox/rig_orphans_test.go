package sandbox_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// No kubelet asks for a pod whose checkpoint and container are lost. Its address is given back at the next start.
func TestOrphanGivesItsAddressBackAtTheNextStart(t *testing.T) {
	r := newRig(t)
	r.pid = runtimeapi.NamespaceMode_POD // with a sandbox container
	orphan, living := r.run("orphan", 0), r.run("living", 0)
	r.must(r.server.Stop(t.Context()))
	r.loseRecord(orphan)
	r.must(r.engine.RemoveContainer(t.Context(), orphan))
	r.must(r.server.Start(t.Context()))
	testutil.Until(t, "one address is given out", func() bool { return len(r.leases()) == 1 })
	address := r.status(living).GetNetwork().GetIp()
	left := r.leases()
	testutil.Assert(t, left[0] == address && r.answers(address),
		"the addresses %v are given out, want only the living pod's, %s", left, address)
	r.end(living)
	r.wantNothing(orphan, living)
}

// newSpecification raises the server's chain to CNI 1.1, which has STATUS and GC, and adds a scripted plugin to it.
func (r *rig) newSpecification(script string) {
	r.Helper()
	r.must(r.server.Stop(r.Context()))
	r.addPlugin("agent", script+"\n"+passOn)
	r.editJSON(r.server.CNIConfig(), func(config map[string]any) { config["cniVersion"] = "1.1.0" })
}

// A failing STATUS of a plugin makes the node's NetworkReady false.
func TestPluginsStatusIsNetworkReady(t *testing.T) {
	r := newRig(t)
	down := filepath.Join(r.server.Dir, "agent-is-down")
	r.newSpecification(`if [ "$CNI_COMMAND" = STATUS ] && [ -e ` + down + ` ]; then
	echo '{"cniVersion":"1.1.0","code":50,"msg":"the agent is down"}'; exit 1
fi`)
	r.must(r.server.Start(t.Context()))
	ready, condition := r.networkReady()
	testutil.Assert(t, ready, "NetworkReady is %s", condition)
	r.must(os.WriteFile(down, nil, 0o644))
	testutil.Until(t, "the network is not ready, with the plugin's reason", func() bool {
		ready, condition := r.networkReady()
		return !ready && strings.Contains(condition, "the agent is down")
	})
	r.must(os.Remove(down))
	testutil.Until(t, "the network is ready again", func() bool { ready, _ := r.networkReady(); return ready })
}

// CNI GC runs only with --cni-gc, and its input lists our pods. Plugins without GC do not fail.
func TestNetworkGC(t *testing.T) {
	r := newRig(t)
	called := filepath.Join(r.server.Dir, "gc")
	r.newSpecification(`if [ "$CNI_COMMAND" = GC ]; then cat > ` + called + `.new; mv ` + called + `.new ` + called +
		`; fi`)
	r.must(r.server.Start(t.Context()))
	id := r.run("web", 0)
	r.must(r.server.Stop(t.Context()))
	testutil.Assert(t, !exists(called), "GC was called without --cni-gc")
	r.server.AddFlags("--cni-gc")
	r.must(r.server.Start(t.Context()))
	testutil.Until(t, "GC is called", func() bool { return exists(called) })
	content, err := os.ReadFile(called)
	r.must(err)
	var input struct {
		Valid []struct{ ContainerID, IfName string } `json:"cni.dev/valid-attachments"`
	}
	r.must(json.Unmarshal(content, &input))
	testutil.Assert(t, len(input.Valid) == 1 && input.Valid[0].ContainerID == id && input.Valid[0].IfName == "eth0",
		"GC got %v, want pod %s", input.Valid, id)
	r.wantReady(id)
	testutil.Assert(t, r.answers(r.status(id).GetNetwork().GetIp()), "the pod does not answer after GC")
	r.removeLast(id)
	log, err := os.ReadFile(r.server.LogPath)
	testutil.Assert(t, err == nil && !strings.Contains(string(log), "CNI GC"), "GC failed, see the log: %v", err)
}
