package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// initial returns the node to register.
func (r *Reporter) initial() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: r.opts.Name, Labels: r.labels()},
		Spec:       v1.NodeSpec{Taints: r.opts.Taints},
		Status:     r.statusOf(v1.NodeStatus{}),
	}
}

// identity lists the labels that are corrected if they are wrong.
var identity = []string{v1.LabelHostname, v1.LabelOSStable, v1.LabelArchStable}

func (r *Reporter) labels() map[string]string {
	labels := map[string]string{v1.LabelHostname: r.opts.Name, v1.LabelOSStable: runtime.GOOS,
		v1.LabelArchStable: runtime.GOARCH}
	maps.Copy(labels, r.opts.Labels)
	return labels
}

// register creates the node or takes over the existing one.
func (r *Reporter) register(ctx context.Context) error {
	release, err := r.take(ctx)
	if err != nil {
		return err
	}
	node := r.initial()
	node.Status.Images = r.images.get(ctx, r.opts.Images)
	made, err := r.nodes.Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		r.reported = time.Now()
		r.keep(made)
		r.announce(nil, made)
	} else if !apierrors.IsAlreadyExists(err) {
		r.refreshLocally() // admission of static pods needs the node's features, even without the API server
	}
	release()
	if apierrors.IsAlreadyExists(err) {
		return r.sync(ctx)
	}
	return err
}

// take waits until the caller holds turn. The caller must call release.
func (r *Reporter) take(ctx context.Context) (release func(), err error) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sync gets the node from the API server and sends the differences.
func (r *Reporter) sync(ctx context.Context) error {
	release, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	current, err := r.nodes.Get(ctx, r.opts.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err == nil || missing { // another error says nothing about the node
		r.gone.Store(missing)
	}
	if err != nil {
		r.refreshLocally()
		if missing {
			return fmt.Errorf("node %s was deleted; restart to register it again: %w", r.opts.Name, err)
		}
		return err
	}
	if current, err = r.correctLabels(ctx, current); err != nil {
		return err
	}
	wanted := current.DeepCopy()
	wanted.Status = r.statusOf(current.Status)
	wanted.Status.Images = r.images.get(ctx, r.opts.Images)
	r.keep(wanted)
	if time.Since(r.reported) < r.opts.reportEvery && !changed(&current.Status, &wanted.Status) {
		return nil
	}
	patch, err := statusPatch(&current.Status, &wanted.Status)
	if err != nil {
		return err
	}
	got, err := r.nodes.PatchStatus(ctx, r.opts.Name, patch)
	if err != nil {
		return err
	}
	r.reported = time.Now()
	r.keep(got)
	r.announce(current, got)
	return nil
}

// refreshLocally updates the cached node's status while the API server is away.
func (r *Reporter) refreshLocally() {
	node := r.Node().DeepCopy()
	node.Status = r.statusOf(node.Status)
	r.keep(node)
}

// correctLabels sets labels of identity that are missing or wrong.
func (r *Reporter) correctLabels(ctx context.Context, current *v1.Node) (*v1.Node, error) {
	wanted, wrong := r.labels(), map[string]string{}
	for _, key := range identity {
		if value, ok := current.Labels[key]; !ok || value != wanted[key] {
			wrong[key] = wanted[key]
		}
	}
	if len(wrong) == 0 {
		return current, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": wrong}})
	if err != nil {
		return nil, err
	}
	return r.nodes.Patch(ctx, r.opts.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// announce records an event for each changed condition. before is nil for a new node.
func (r *Reporter) announce(before, after *v1.Node) {
	old := map[v1.NodeConditionType]v1.ConditionStatus{}
	if before != nil {
		for _, condition := range before.Status.Conditions {
			old[condition.Type] = condition.Status
		}
		if id := before.Status.NodeInfo.BootID; id != "" && id != after.Status.NodeInfo.BootID {
			r.opts.Event(true, "Rebooted",
				fmt.Sprintf("Node %s has been rebooted, boot id: %s", r.opts.Name, after.Status.NodeInfo.BootID))
		}
	}
	for _, condition := range after.Status.Conditions {
		words, ok := eventReasons[condition.Type]
		if !ok || old[condition.Type] == condition.Status {
			continue
		}
		if reason := words[condition.Status]; reason != "" {
			r.opts.Event(false, reason, fmt.Sprintf("Node %s status is now: %s", r.opts.Name, reason))
		}
	}
}

// eventReasons has the kubelet's event reasons for changed conditions.
var eventReasons = map[v1.NodeConditionType]map[v1.ConditionStatus]string{
	v1.NodeReady: {v1.ConditionTrue: "NodeReady", v1.ConditionFalse: "NodeNotReady"},
	v1.NodeMemoryPressure: {v1.ConditionTrue: "NodeHasInsufficientMemory",
		v1.ConditionFalse: "NodeHasSufficientMemory"},
	v1.NodeDiskPressure: {v1.ConditionTrue: "NodeHasDiskPressure", v1.ConditionFalse: "NodeHasNoDiskPressure"},
	v1.NodePIDPressure:  {v1.ConditionTrue: "NodeHasInsufficientPID", v1.ConditionFalse: "NodeHasSufficientPID"},
}
