package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// statusOf returns the wanted status of a node with the given status. It keeps the images. The caller holds the turn.
func (r *Reporter) statusOf(current v1.NodeStatus) v1.NodeStatus {
	status, now := *current.DeepCopy(), time.Now()
	ours, err := r.capacity()
	all, healthy := r.opts.Devices()
	maps.Copy(ours, all)
	withCapacity(&status, ours)
	status.Allocatable = r.opts.allocatable(status.Capacity)
	maps.Copy(status.Allocatable, healthy)
	withConditions(&status, append(r.pressures(), r.readiness(err)), now)
	status.Addresses = r.addresses(status.Addresses)
	status.DaemonEndpoints.KubeletEndpoint.Port = r.opts.Port
	status.NodeInfo = r.info()
	if r.opts.Features != nil {
		status.RuntimeHandlers, status.Features = r.opts.Features()
	}
	return status
}

// addresses returns this node's addresses, followed by addresses of other types, which a cloud's controller may have
// set.
func (r *Reporter) addresses(current []v1.NodeAddress) []v1.NodeAddress {
	var list []v1.NodeAddress
	for _, ip := range r.opts.IPs() {
		list = append(list, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	list = append(list, v1.NodeAddress{Type: v1.NodeHostName, Address: r.opts.Name})
	for _, address := range current {
		if address.Type != v1.NodeInternalIP && address.Type != v1.NodeHostName {
			list = append(list, address)
		}
	}
	return list
}

func (r *Reporter) info() v1.NodeSystemInfo {
	info := r.machine.info()
	info.KubeletVersion = r.opts.version
	info.ContainerRuntimeVersion = "Unknown"
	if r.opts.RuntimeVersion != nil {
		if version := r.opts.RuntimeVersion(); version != "" {
			info.ContainerRuntimeVersion = version
		}
	}
	mem, err := r.machine.memory()
	if swap := mem["SwapTotal"]; err == nil && swap > 0 {
		info.Swap = &v1.NodeSwapStatus{Capacity: &swap}
	}
	return info
}

// changed compares two statuses without their heartbeats.
func changed(a, b *v1.NodeStatus) bool {
	a, b = withoutHeartbeats(a), withoutHeartbeats(b)
	return !equality.Semantic.DeepEqual(a, b)
}

func withoutHeartbeats(status *v1.NodeStatus) *v1.NodeStatus {
	plain := *status
	plain.Conditions = slices.Clone(status.Conditions)
	for i := range plain.Conditions {
		plain.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return &plain
}

// statusPatch returns the strategic merge patch from one status to the other, with only the differences. Addresses are
// replaced as a whole: they merge by type, but a dual-stack node has two addresses of one type.
func statusPatch(from, to *v1.NodeStatus) ([]byte, error) {
	before, after := v1.Node{Status: *from}, v1.Node{Status: *to}
	before.Status.Addresses, after.Status.Addresses = nil, nil
	oldText, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	newText, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(oldText, newText, v1.Node{})
	if err != nil {
		return nil, fmt.Errorf("node status: %w", err)
	}
	if slices.Equal(from.Addresses, to.Addresses) {
		return patch, nil
	}
	var tree map[string]any
	if err := json.Unmarshal(patch, &tree); err != nil {
		return nil, err
	}
	list := []any{map[string]string{"$patch": "replace"}}
	for _, address := range to.Addresses {
		list = append(list, address)
	}
	status, _ := tree["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		tree["status"] = status
	}
	status["addresses"] = list
	return json.Marshal(tree)
}
