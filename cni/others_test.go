package cni

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const (
	otherPod  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	otherConf = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge"}]}`
)

// otherEntry is an entry as cri-dockerd v0.4.3 leaves it.
func otherEntry(id, network string) map[string]any {
	return map[string]any{
		"kind": "cniCacheV1", "containerId": id, "config": []byte(otherConf), "ifName": "eth0", "networkName": network,
		"netns":   "/proc/4711/ns/net",
		"cniArgs": [][]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "web"}},
		"capabilityArgs": map[string]any{
			"portMappings": []any{map[string]any{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}}},
		"result": map[string]any{
			"cniVersion": "1.0.0",
			"interfaces": []any{map[string]any{"name": "eth0", "sandbox": "/proc/4711/ns/net"}},
			"ips": []any{map[string]any{"interface": 0, "address": "10.0.0.7/24"},
				map[string]any{"interface": 0, "address": "fd00::7/64"}},
		},
	}
}

func writeEntry(t *testing.T, dir, network, id string, entry any) string {
	t.Helper()
	content, err := json.Marshal(entry)
	must(t, err)
	path := filepath.Join(dir, "results", network+"-"+id+"-eth0")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testutil.WriteFile(t, path, string(content))
	return path
}

func TestAttachmentOfAnotherRuntime(t *testing.T) {
	missing, theirs, ours := filepath.Join(t.TempDir(), "missing"), t.TempDir(), t.TempDir()
	loopback := writeEntry(t, theirs, loopbackNetwork, otherPod, otherEntry(otherPod, loopbackNetwork))
	entry := writeEntry(t, theirs, "net", otherPod, otherEntry(otherPod, "net"))
	found, err := FindAttachment([]string{missing, ours, theirs}, otherPod)
	must(t, err)
	testutil.Require(t, found != nil && found.Network == "net" &&
		slices.Equal(found.IPs, []string{"10.0.0.7", "fd00::7"}) && len(found.Raw) != 0, "got %+v", found)
	must(t, found.CopyTo(ours, "/run/netns/pin"))
	n := &Network{cni: libcniOf(t, ours)}
	kept, err := n.kept(otherPod)
	testutil.Require(t, err == nil && len(kept) == 1 && kept[0].NetNS == "/run/netns/pin" &&
		string(kept[0].Config) == otherConf && len(kept[0].CniArgs) == 2 &&
		kept[0].CapabilityArgs["portMappings"] != nil, "our cache holds %+v, %v", kept, err)
	testutil.WriteFile(t, filepath.Join(theirs, "results", "net-"+otherPod[1:]+"-eth0"), "of another pod")
	must(t, ForgetAttachments([]string{missing, theirs}, otherPod))
	for _, path := range []string{entry, loopback} {
		_, err := os.Stat(path)
		testutil.Fails(t, err, os.IsNotExist, "%s is there still", path)
	}
	left, err := os.ReadDir(filepath.Join(theirs, "results"))
	testutil.Assert(t, err == nil && len(left) == 1, "left is %v, %v; want the other pod's entry", left, err)
}

func TestAttachmentInTheSameDirectory(t *testing.T) {
	dir := t.TempDir()
	loopback := writeEntry(t, dir, loopbackNetwork, otherPod, otherEntry(otherPod, loopbackNetwork))
	writeEntry(t, dir, "net", otherPod, otherEntry(otherPod, "net"))
	found, err := FindAttachment([]string{dir}, otherPod)
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	for range 2 {
		must(t, found.CopyTo(dir, "/run/netns/pin"))
	}
	_, err = os.Stat(loopback)
	testutil.Fails(t, err, os.IsNotExist, "the entry of lo, which needs the loopback plugin, is there still")
	n := &Network{cni: libcniOf(t, dir)}
	kept, err := n.kept(otherPod)
	testutil.Assert(t, err == nil && len(kept) == 1 && kept[0].NetNS == "/run/netns/pin", "got %+v, %v", kept, err)
}

func TestAttachmentsThatCannotBeRead(t *testing.T) {
	another := otherEntry("another", "net")
	old := otherEntry(otherPod, "net")
	delete(old, "kind")
	empty := otherEntry(otherPod, "")
	for name, entry := range map[string]any{"another pod's": another, "an old layout": old, "no network": empty,
		"no object": "x"} {
		dir := t.TempDir()
		writeEntry(t, dir, "net", otherPod, entry)
		found, err := FindAttachment([]string{dir}, otherPod)
		testutil.Assert(t, found == nil && err == nil, "%s: got %+v, %v", name, found, err)
	}
	dir := t.TempDir()
	bad := otherEntry(otherPod, "net")
	bad["result"] = "x"
	writeEntry(t, dir, "net", otherPod, bad)
	if found, err := FindAttachment([]string{dir}, otherPod); err != nil || found == nil || found.IPs != nil {
		t.Errorf("without a result: got %+v, %v; want an attachment without addresses", found, err)
	}
}

func FuzzParseAttachment(f *testing.F) {
	content, err := json.Marshal(otherEntry(otherPod, "net"))
	must(f, err)
	f.Add(content)
	f.Add([]byte(`{"kind":"cniCacheV1","containerId":"` + otherPod + `","networkName":"n","config":"e30=","result":{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.1/24"}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		a := parseAttachment("/x/results/n-"+otherPod+"-eth0", otherPod, content)
		if a == nil {
			return
		}
		dir := t.TempDir()
		must(t, a.CopyTo(dir, "/run/netns/pin"))
		again, err := FindAttachment([]string{dir}, otherPod)
		testutil.Assert(t, err == nil && again != nil && again.Network == a.Network,
			"copied it reads as %+v, %v", again, err)
	})
}
