package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// crictl prints the server's version and whether it is ready.
func TestCrictlVersionAndInfo(t *testing.T) {
	c := newCrictl(t)
	fields := make(map[string]string)
	for line := range strings.Lines(c.run("version")) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	same(t, "Version", fields["Version"], "0.1.0")
	for _, key := range []string{"RuntimeName", "RuntimeVersion", "RuntimeApiVersion"} {
		testutil.Assert(t, fields[key] != "", "version prints no %s: %v", key, fields)
	}

	testutil.Eventually(t, func() error { // the server answers before it has seen the engine
		var info nodeInfo
		c.read(&info, "info")
		ready := make(map[string]bool)
		for _, condition := range info.Status.Conditions {
			ready[condition.Type] = condition.Status
		}
		if !ready["RuntimeReady"] || !ready["NetworkReady"] {
			return fmt.Errorf("conditions: %+v", info.Status.Conditions)
		}
		return nil
	})
}

// A pod from runp to rmp.
func TestCrictlPod(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	testutil.Require(t, len(p.id) == 64, "runp printed %q", p.id)
	var status podStatus
	c.read(&status, "inspectp", "-o", "json", p.id)
	got := status.Status
	same(t, "id", got.ID, p.id)
	same(t, "metadata", got.Metadata, metadata{Name: p.name, Namespace: "e2e", UID: p.name + "-uid", Attempt: 1})
	same(t, "state", got.State, "SANDBOX_READY")
	same(t, "label", got.Labels["suite"], "e2e")
	same(t, "number of labels", len(got.Labels), 1)
	same(t, "annotation", got.Annotations["e2e.example/note"], "kept as it is")
	same(t, "number of annotations", len(got.Annotations), 1)
	address, err := netip.ParseAddr(got.Network.IP)
	testutil.Assert(t, err == nil && netip.MustParsePrefix(c.server.Subnet).Contains(address),
		"address %q is not in %s: %v", got.Network.IP, c.server.Subnet, err)
	testutil.Assert(t, len(status.Info) != 0, "inspectp has no verbose info")

	entry, ok := findPod(c, p.id)
	testutil.Require(t, ok, "pods does not list the pod")
	same(t, "listed metadata", entry.Metadata, got.Metadata)
	same(t, "listed state", entry.State, "SANDBOX_READY")

	c.run("stopp", p.id)
	c.read(&status, "inspectp", "-o", "json", p.id)
	same(t, "state after stopp", status.Status.State, "SANDBOX_NOTREADY")
	c.run("stopp", p.id) // a second stop must succeed, too
	c.run("rmp", p.id)
	r := c.try("inspectp", p.id)
	testutil.Assert(t, r.code != 0, "inspectp after rmp:\n%s", r.stdout)
	_, ok = findPod(c, p.id)
	testutil.Assert(t, !ok, "pods lists the pod after rmp")
}

func findPod(c *crictl, id string) (podEntry, bool) {
	c.t.Helper()
	var list podList
	c.read(&list, "pods", "-o", "json")
	for _, entry := range list.Items {
		if entry.ID == id {
			return entry, true
		}
	}
	return podEntry{}, false
}
