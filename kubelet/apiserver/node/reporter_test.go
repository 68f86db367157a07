package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/apitest"
)

func TestRegister(t *testing.T) {
	m := fakeMachine(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var events []string
		r, end := start(t, s, m, Options{
			Labels: map[string]string{"disk": "fast"}, Taints: []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}},
			Port: 10250, version: "v1.2.3-core",
			RuntimeVersion: func() string { return "docker://20.10" }, IPs: at("192.0.2.1", "2001:db8::1"),
			Images: func(context.Context) ([]v1.ContainerImage, error) {
				return []v1.ContainerImage{{Names: []string{"i"}, SizeBytes: 7}}, nil
			},
			Event: func(_ bool, reason, _ string) { events = append(events, reason) },
		})
		before := r.Node()
		testutil.Assert(t, before.Status.Allocatable.Pods().Value() == 110 && before.Labels["disk"] == "fast",
			"before the registration the node is %+v", before)
		<-r.Registered()
		end()
		node := currentNode(s)
		testutil.Assert(t, node.Labels["disk"] == "fast" && node.Labels[v1.LabelHostname] == "here" &&
			node.Labels[v1.LabelOSStable] == "linux" && node.Labels[v1.LabelArchStable] != "", "labels %v", node.Labels)
		testutil.Assert(t, len(node.Spec.Taints) == 1 && node.Spec.Taints[0].Key == "k", "taints %v", node.Spec.Taints)
		ready := condition(node, v1.NodeReady)
		testutil.Assert(t, ready.Status == v1.ConditionTrue && ready.Reason == "KubeletReady" &&
			!ready.LastTransitionTime.IsZero(), "ready %+v", ready)
		want := []v1.NodeAddress{{Type: "InternalIP", Address: "192.0.2.1"},
			{Type: "InternalIP", Address: "2001:db8::1"}, {Type: "Hostname", Address: "here"}}
		testutil.Assert(t, slices.Equal(node.Status.Addresses, want), "addresses %v", node.Status.Addresses)
		info := node.Status.NodeInfo
		testutil.Assert(t, info.ContainerRuntimeVersion == "docker://20.10" && info.OSImage == "Test Linux 1" &&
			info.KernelVersion == "6.1.0-test" && info.MachineID == "machine" && info.SystemUUID == "machine" &&
			info.BootID == "boot" && info.KubeletVersion == "v1.2.3-core", "info %+v", info)
		testutil.Assert(t, node.Status.DaemonEndpoints.KubeletEndpoint.Port == 10250 && len(node.Status.Images) == 1,
			"port %v, images %v", node.Status.DaemonEndpoints, node.Status.Images)
		testutil.Assert(t, r.Node().UID == node.UID && node.UID != "",
			"UID %q, the server's is %q", r.Node().UID, node.UID)
		testutil.Assert(t, slices.Contains(events, "NodeReady") && slices.Contains(events, "NodeHasSufficientMemory"),
			"events %v", events)
	})
}

// TestAdopt: the node exists already, and other clients have changed it.
func TestAdopt(t *testing.T) {
	m := fakeMachine(t, nil)
	synctest.Test(t, func(t *testing.T) {
		yesterday := metav1.NewTime(time.Now().Add(-24 * time.Hour).Truncate(time.Second))
		s := apitest.New()
		s.Set(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "here", UID: "old", Annotations: map[string]string{"a": "b"},
				Labels: map[string]string{v1.LabelArchStable: "vax", v1.LabelOSStable: "linux", "theirs": "yes",
					"disk": "theirs"}},
			Spec: v1.NodeSpec{PodCIDR: "10.0.0.0/24",
				Taints: []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoExecute}}},
			Status: v1.NodeStatus{
				Capacity: v1.ResourceList{
					"example.com/card": resource.MustParse("3"), v1.ResourceCPU: resource.MustParse("1000"),
					"hugepages-16Mi": resource.MustParse("16Mi"),
				},
				Conditions: []v1.NodeCondition{
					{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse, Reason: "theirs",
						LastHeartbeatTime: yesterday, LastTransitionTime: yesterday},
					{Type: v1.NodeReady, Status: v1.ConditionUnknown, Reason: "NodeStatusUnknown",
						LastTransitionTime: yesterday},
					{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, LastTransitionTime: yesterday},
				},
				Addresses: []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "198.51.100.1"},
					{Type: v1.NodeInternalIP, Address: "192.0.2.200"}},
				NodeInfo: v1.NodeSystemInfo{BootID: "earlier"},
			},
		})
		var events []string
		r, end := start(t, s, m, Options{
			Labels: map[string]string{"disk": "fast"}, IPs: at("192.0.2.1", "2001:db8::1"),
			Event: func(_ bool, reason, _ string) { events = append(events, reason) },
		})
		<-r.Registered()
		end()
		node := currentNode(s)
		testutil.Assert(t, node.UID == "old" && node.Annotations["a"] == "b" && node.Labels["theirs"] == "yes" &&
			node.Labels["disk"] == "theirs" && node.Spec.PodCIDR != "" && node.Spec.Taints[0].Key == "theirs",
			"fields of other clients were changed: %+v", node)
		testutil.Assert(t, node.Labels[v1.LabelArchStable] != "vax" && node.Labels[v1.LabelHostname] == "here",
			"labels %v", node.Labels)
		theirs := condition(node, v1.NodeNetworkUnavailable)
		testutil.Assert(t, theirs.Reason == "theirs" && theirs.LastHeartbeatTime.Equal(&yesterday),
			"the other client's condition is %+v", theirs)
		ready := condition(node, v1.NodeReady)
		testutil.Assert(t, ready.Status == v1.ConditionTrue && ready.LastTransitionTime.After(yesterday.Time),
			"ready %+v", ready)
		pids := condition(node, v1.NodePIDPressure)
		testutil.Assert(t, pids.LastTransitionTime.Equal(&yesterday) && !pids.LastHeartbeatTime.IsZero(),
			"a condition that did not change has %+v", pids)
		want := []v1.NodeAddress{{Type: "InternalIP", Address: "192.0.2.1"},
			{Type: "InternalIP", Address: "2001:db8::1"},
			{Type: "Hostname", Address: "here"}, {Type: "ExternalIP", Address: "198.51.100.1"}}
		testutil.Assert(t, slices.Equal(node.Status.Addresses, want), "addresses %v", node.Status.Addresses)
		capacity := node.Status.Capacity
		cards := capacity["example.com/card"]
		testutil.Assert(t, cards.Value() == 3 && capacity.Cpu().Value() != 1000 && capacity.Memory().Value() == 8<<30,
			"capacity %v", capacity)
		_, stale := capacity["hugepages-16Mi"]
		testutil.Assert(t, !stale, "huge pages of a size that the machine lacks are still there")
		cards = node.Status.Allocatable["example.com/card"]
		testutil.Equal(t, cards.Value(), 3, "allocatable cards")
		testutil.Assert(t, slices.Contains(events, "Rebooted") && slices.Contains(events, "NodeReady") &&
			!slices.Contains(events, "NodeHasSufficientPID"), "events %v", events)
	})
}

// TestRegisterRetries: the server is away for the first minute.
func TestRegisterRetries(t *testing.T) {
	m := fakeMachine(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		s.SetAway(true)
		var short atomic.Bool
		pressure := func(v1.NodeConditionType) (bool, error) { return short.Load(), nil }
		r, end := start(t, s, m, Options{Pressure: pressure})
		short.Store(true)
		time.Sleep(time.Minute)
		got := condition(r.Node(), v1.NodeMemoryPressure)
		testutil.Assert(t, got.Status == v1.ConditionTrue,
			"before the registration the node's memory pressure is %+v", got)
		s.SetAway(false)
		began := time.Now()
		<-r.Registered()
		took := time.Since(began)
		testutil.Assert(t, took <= 7*time.Second, "registered %v after the server came", took)
		end()
		tries := s.Requests("POST", "/nodes")
		for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000} {
			want *= time.Millisecond
			got := tries[i+1].At.Sub(tries[i].At)
			testutil.Assert(t, got >= want && got <= want*14/10,
				"pause %d is %v, want %v and at most two fifths more", i, got, want)
		}
	})
}

// TestStatusOnlyWhenChanged: without a change nothing is sent, a change is sent alone, and everything is sent at least
// every five minutes.
func TestStatusOnlyWhenChanged(t *testing.T) {
	var broken atomic.Bool
	withNode(t, Options{NetworkErr: func() error {
		if broken.Load() {
			return errors.New("cni config uninitialized")
		}
		return nil
	}}, func(t *testing.T, s *apitest.Server, r *Reporter) {
		time.Sleep(4 * time.Minute)
		patches := s.Requests("PATCH", "")
		testutil.Require(t, len(patches) == 0, "a node that did not change was patched: %v", patches)
		broken.Store(true)
		r.Wake()
		synctest.Wait()
		ready := condition(r.Node(), v1.NodeReady)
		testutil.Assert(t, ready.Status == v1.ConditionFalse && ready.Reason == "KubeletNotReady" &&
			strings.Contains(ready.Message, "network not ready: cni config"), "ready %+v", ready)
		patches = s.Requests("PATCH", "/nodes/here/status")
		testutil.Require(t, len(patches) == 1, "%d patches", len(patches))
		onlyKey(t, patches[0].Body, "conditions")
		time.Sleep(4*time.Minute + 50*time.Second)
		testutil.Equal(t, len(s.Requests("PATCH", "")), 1, "patches in less than five minutes")
		time.Sleep(20 * time.Second)
		testutil.Equal(t, len(s.Requests("PATCH", "")), 2, "patches after five minutes, with the heartbeat")
		after := condition(currentNode(s), v1.NodeReady)
		testutil.Assert(t, after.LastTransitionTime.Equal(&ready.LastTransitionTime) &&
			after.LastHeartbeatTime.After(ready.LastHeartbeatTime.Time), "after the heartbeat: %+v, before: %+v",
			after, ready)
		broken.Store(false)
		time.Sleep(11 * time.Second)
		ready = condition(currentNode(s), v1.NodeReady)
		testutil.Assert(t, ready.Status == v1.ConditionTrue &&
			ready.LastTransitionTime.After(after.LastTransitionTime.Time), "ready again: %+v", ready)
	})
}

// onlyKey fails if the patch changes another part of the status.
func onlyKey(t *testing.T, patch, key string) {
	t.Helper()
	var tree map[string]map[string]any
	testutil.Must(t, json.Unmarshal([]byte(patch), &tree))
	for name := range tree["status"] {
		testutil.Assert(t, name == key || name == "$setElementOrder/"+key, "the patch changes %s: %s", name, patch)
	}
	testutil.Assert(t, len(tree) == 1 && tree["status"][key] != nil, "the patch is %s", patch)
}

// TestAddressesFollow: the network of a node comes up after its registration.
func TestAddressesFollow(t *testing.T) {
	var up atomic.Bool
	ips := func() []string {
		if up.Load() {
			return []string{"192.0.2.1"}
		}
		return []string{"127.0.0.1"}
	}
	withNode(t, Options{IPs: ips}, func(t *testing.T, s *apitest.Server, r *Reporter) {
		testutil.Equal(t, currentNode(s).Status.Addresses[0].Address, "127.0.0.1", "before the network is up")
		up.Store(true)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		testutil.Equal(t, currentNode(s).Status.Addresses[0].Address, "192.0.2.1", "with the network")
	})
}

// TestRuntimeHangs: a runtime that does not answer is reported, and its images stay.
func TestRuntimeHangs(t *testing.T) {
	var hangs atomic.Bool
	var lists atomic.Int32
	withNode(t, Options{
		RuntimeErr: func() error {
			if hangs.Load() {
				return context.DeadlineExceeded
			}
			return nil
		},
		Images: func(ctx context.Context) ([]v1.ContainerImage, error) {
			lists.Add(1)
			if hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []v1.ContainerImage{{Names: []string{"i"}, SizeBytes: 7}}, nil
		},
	}, func(t *testing.T, s *apitest.Server, r *Reporter) {
		time.Sleep(29 * time.Second)
		testutil.Equal(t, lists.Load(), 1, "lists of images in half a minute")
		hangs.Store(true)
		time.Sleep(11*time.Second + imagesTimeout)
		node := currentNode(s)
		ready := condition(node, v1.NodeReady)
		testutil.Assert(t, ready.Status == v1.ConditionFalse && len(node.Status.Images) == 1,
			"ready %+v, images %v", ready, node.Status.Images)
		testutil.Equal(t, lists.Load(), 2, "lists of images")
	})
}

// TestServerAway: while the server is away, the status in memory is right. When the server is back after a minute, it
// gets the right status.
func TestServerAway(t *testing.T) {
	var short atomic.Bool
	pressure := func(v1.NodeConditionType) (bool, error) { return short.Load(), nil }
	withNode(t, Options{Pressure: pressure}, func(t *testing.T, s *apitest.Server, r *Reporter) {
		s.SetAway(true)
		short.Store(true)
		time.Sleep(time.Minute)
		got := condition(r.Node(), v1.NodeMemoryPressure)
		testutil.Assert(t, got.Status == v1.ConditionTrue, "without a server the node's memory pressure is %+v", got)
		_, err := r.Refresh(t.Context())
		testutil.Assert(t, err != nil, "the node was fetched from a server that is away")
		s.SetAway(false)
		time.Sleep(lastPause)
		got = condition(currentNode(s), v1.NodeMemoryPressure)
		testutil.Assert(t, got.Status == v1.ConditionTrue && got.Reason == "KubeletHasInsufficientMemory",
			"the server's node has %+v", got)
	})
}

// TestRefresh: Refresh returns a label that was set a moment ago.
func TestRefresh(t *testing.T) {
	withNode(t, Options{}, func(t *testing.T, s *apitest.Server, r *Reporter) {
		synctest.Wait()
		labelled := currentNode(s)
		labelled.Labels["new"] = "yes"
		s.Set(labelled)
		testutil.Require(t, r.Node().Labels["new"] == "", "the new label is cached already")
		node, err := r.Refresh(t.Context())
		testutil.Assert(t, err == nil && node.Labels["new"] == "yes" && r.Node().Labels["new"] == "yes",
			"%v, %v", node.Labels, err)
	})
}

// TestDeleted: the node was deleted from the cluster.
func TestDeleted(t *testing.T) {
	withNode(t, Options{}, func(t *testing.T, s *apitest.Server, r *Reporter) {
		time.Sleep(15 * time.Second)
		testutil.Assert(t, r.Exists(), "the node does not exist")
		s.Delete(r.Node())
		s.Delete(blankLease())
		time.Sleep(15 * time.Second)
		testutil.Assert(t, !r.Exists(), "the node exists after it was deleted")
		s.SetAway(true)
		time.Sleep(15 * time.Second)
		testutil.Assert(t, !r.Exists(), "the deleted node exists after a failed request")
		s.SetAway(false)
		s.Delete(blankLease()) // a renewal may have created it before the deletion was seen
		time.Sleep(time.Minute)
		testutil.Assert(t, currentNode(s) == nil && currentLease(s) == nil, "the deleted node or its lease is back")
		// Another registration, by a second process or by hand, is adopted with its UID.
		s.Set(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", UID: "second"}})
		time.Sleep(30 * time.Second)
		testutil.Assert(t, r.Exists() && r.Node().UID == "second" &&
			condition(currentNode(s), v1.NodeReady).Status == v1.ConditionTrue, "the second node is %+v",
			currentNode(s))
		testutil.Assert(t, currentLease(s) != nil && currentLease(s).OwnerReferences[0].UID == "second",
			"its lease is %+v", currentLease(s))
	})
}

// TestShutdown: a server that does not answer does not delay the end.
func TestShutdown(t *testing.T) {
	m := fakeMachine(t, nil)
	for name, before := range map[string]time.Duration{"registering": 0, "registered": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				s.SetHang(before == 0)
				_, end := start(t, s, m, Options{})
				time.Sleep(before)
				s.SetHang(true)
				time.Sleep(25 * time.Second)
				began := time.Now()
				end()
				testutil.Equal(t, time.Since(began), 0, "it took")
			})
		})
	}
}

func TestNoServer(t *testing.T) {
	r := newTest(t, Options{}, nil)
	testutil.Assert(t, !r.Node().Status.Allocatable.Memory().IsZero(), "the node has no memory")
	_, err := r.Refresh(t.Context())
	testutil.Assert(t, err != nil, "Refresh succeeded without a server")
}

// TestAlone: the reporter computes the status without an API server.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cards := resource.MustParse("0")
		r := newTest(t, Options{Devices: func() (capacity, allocatable v1.ResourceList) {
			all := v1.ResourceList{"example.com/card": cards}
			return all, all
		}}, nil)
		testutil.Background(t, r.Run)
		synctest.Wait()
		cards = resource.MustParse("2")
		r.Wake()
		synctest.Wait()
		got := r.Node().Status.Allocatable["example.com/card"]
		testutil.Equal(t, got.Value(), int64(2), "allocatable cards")
	})
}
