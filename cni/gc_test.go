package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

var newChain = strings.Replace(chain, "1.0.0", "1.1.0", 1)

func TestAttached(t *testing.T) {
	s, n := scripted(t)
	want := func(want ...string) {
		t.Helper()
		attached, err := n.Attached()
		got := slices.Sorted(maps.Keys(attached))
		testutil.Assert(t, err == nil && slices.Equal(got, want), "attached are %v, %v; want %v", got, err, want)
		for id, path := range attached {
			testutil.Assert(t, path == testPod(id).NetnsPath, "pod %s has the namespace %q", id, path)
		}
	}
	want()
	for _, id := range []string{"b", "a"} {
		join(t, n, id)
	}
	want("a", "b")
	s.script("fake.ADD", "exit 1")
	s.script("fake.DEL", "exit 1")
	_, err := n.Add(context.Background(), testPod("c"))
	testutil.Assert(t, err != nil, "ADD succeeded")
	testutil.WriteFile(t, filepath.Join(s.cache, "pending", "cut-short"), `{"container`)
	want("a", "b", "c") // the ADD of c is not undone
	must(t, os.Remove(filepath.Join(s.journal, "fake.DEL.do")))
	for _, id := range []string{"a", "c"} {
		must(t, n.Del(context.Background(), Pod{ID: id}, ""))
	}
	want("b")
}

// valid returns the valid attachments that a plugin got, as ID/INTERFACE.
func (s *sandbox) valid(call string) []string {
	s.t.Helper()
	var input struct {
		Valid []types.GCAttachment `json:"cni.dev/valid-attachments"`
	}
	must(s.t, json.Unmarshal([]byte(s.recorded(call+".stdin")), &input))
	var ids []string
	for _, a := range input.Valid {
		ids = append(ids, a.ContainerID+"/"+a.IfName)
	}
	slices.Sort(ids)
	return ids
}

func TestGCTellsWhichPodsThereAre(t *testing.T) {
	s, n := scripted(t)
	s.configure("net.conflist", newChain)
	s.expectVersion(n, "1.1.0")
	for _, id := range []string{"a", "b"} {
		join(t, n, id)
	}
	s.forgetCalls()
	s.script("fake.GC", `echo '{"code":4,"msg":"unknown CNI_COMMAND"}'; exit 1`) // a plugin without GC
	// Pod c has no cache entry. Pod b is not in the call of GC, but has a cache entry. GC keeps them all.
	must(t, n.GC(context.Background(), []string{"a", "c"}))
	testutil.Equal(t, s.calls(), "fake.GC ports.GC", "ran")
	got, want := s.valid("ports.GC"), []string{"a/eth0", "b/eth0", "c/eth0"}
	testutil.Assert(t, slices.Equal(got, want), "the valid attachments are %v, want %v", got, want)
	s.script("ports.GC", `echo '{"code":100,"msg":"no disk"}'; exit 1`)
	err := n.GC(context.Background(), nil)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "no disk"), "got %v", err)
	for name, config := range map[string]string{
		"an older version": chain,
		"disableGC":        strings.Replace(newChain, `"name"`, `"disableGC":true,"name"`, 1),
	} {
		s.configure("net.conflist", config)
		testutil.Until(t, name, func() bool { return string(n.current.Load().list.Bytes) == config })
		s.forgetCalls()
		must(t, n.GC(context.Background(), nil))
		testutil.Equal(t, s.calls(), "", "%s: ran", name)
	}
}

func (s *sandbox) expectVersion(n *Network, version string) {
	s.t.Helper()
	testutil.Until(s.t, "version "+version, func() bool { return n.Config().CNIVersion == version })
}

// GC keeps a pod whose ADD runs, and a pod whose ADD begins during GC.
func TestGCAndAddAtOnce(t *testing.T) {
	s, n := scripted(t)
	s.configure("net.conflist", newChain)
	s.expectVersion(n, "1.1.0")
	wait := filepath.Join(s.journal, "go")
	s.script("fake.ADD", "while [ ! -e "+wait+" ]; do sleep 0.01; done")
	s.script("fake.GC", "while [ ! -e "+wait+".gc ]; do sleep 0.01; done")
	joined := make(chan error, 2)
	add := func(id string) {
		_, err := n.Add(context.Background(), testPod(id))
		joined <- err
	}
	go add("first")
	testutil.Until(t, "the first ADD runs", func() bool { return s.calls() == "fake.ADD" })
	collected := testutil.Go(func() error { return n.GC(context.Background(), nil) })
	testutil.Until(t, "GC runs beside an ADD that hangs", func() bool { return s.calls() == "fake.ADD fake.GC" })
	go add("second")
	time.Sleep(200 * time.Millisecond)
	testutil.Equal(t, s.calls(), "fake.ADD fake.GC", "during GC ran")
	testutil.WriteFile(t, wait+".gc", "")
	must(t, <-collected)
	got := s.valid("ports.GC")
	testutil.Assert(t, slices.Equal(got, []string{"first/eth0"}), "the valid attachments are %v", got)
	testutil.WriteFile(t, wait, "")
	must(t, <-joined, <-joined)
}

// If an ADD ends while GC lists the valid attachments, the list has its attachment: as a pending ADD or from the cache.
func TestGCKeepsTheAttachmentOfAnEndingAdd(t *testing.T) {
	const others, rounds = 300, 300
	_, n := scripted(t)
	list := n.current.Load().list
	for i := range others {
		cacheResult(t, n, list.Name, fmt.Sprint("other-", i))
	}
	rt, err := testPod("ending").runtimeConf()
	must(t, err)
	stop, churned := make(chan struct{}), make(chan struct{})
	begin := func() {
		n.gate.RLock() // an ADD begins between two GCs
		defer n.gate.RUnlock()
		testutil.Check(t, n.pending.begin(list, rt))
		_ = os.Remove(cachePath(n, list.Name, rt.ContainerID))
	}
	begin()
	go func() {
		defer close(churned)
		for range rounds * 100 {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			cacheResult(t, n, list.Name, rt.ContainerID)
			testutil.Check(t, n.pending.end(rt.ContainerID))
			select {
			case <-stop:
				return
			default:
				begin()
			}
		}
	}()
	missing := 0
	for range rounds {
		n.gate.Lock()
		kept, err := n.keptOfAll()
		n.gate.Unlock()
		must(t, err)
		if !slices.ContainsFunc(kept, func(a *libcni.NetworkAttachment) bool {
			return a.ContainerID == rt.ContainerID
		}) {
			missing++
		}
	}
	close(stop)
	<-churned
	testutil.Assert(t, missing == 0, "the attachment was missing %d times of %d", missing, rounds)
}

func cachePath(n *Network, network, id string) string {
	return filepath.Join(n.opts.CacheDir, "results", network+"-"+id+"-"+interfaceName)
}

// cacheResult writes an attachment as libcni does.
func cacheResult(t *testing.T, n *Network, network, id string) {
	content, err := json.Marshal(map[string]string{
		"kind": libcni.CNICacheV1, "containerId": id, "networkName": network, "ifName": interfaceName,
	})
	path := cachePath(n, network, id)
	testutil.Check(t, errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)))
}

// An Add whose context ends while it waits for GC begins nothing.
func TestCancelledAddBehindGC(t *testing.T) {
	s, n := scripted(t)
	ctx, cancel := context.WithCancel(t.Context())
	n.gate.Lock()
	failed := testutil.Try(func() (*Result, error) { return n.Add(ctx, testPod("late")) })
	time.Sleep(100 * time.Millisecond)
	cancel()
	n.gate.Unlock()
	testutil.FailsWith(t, <-failed, context.Canceled, "Add")
	testutil.Equal(t, s.calls(), "", "ran")
}
