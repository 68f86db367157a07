package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/apitest"
)

// clusterNode is a node of an API server in memory.
type clusterNode struct {
	*node
	api *apitest.Server
}

// newClusterNode starts an API server and a node of it.
func newClusterNode(t *testing.T, flags ...string) *clusterNode {
	t.Helper()
	c := prepareClusterNode(t, flags...)
	c.start()
	return c
}

// prepareClusterNode is newClusterNode without starting the kubelet.
func prepareClusterNode(t *testing.T, flags ...string) *clusterNode {
	t.Helper()
	n := prepareNode(t, flags...)
	c := &clusterNode{node: n, api: apitest.Start(t)}
	kubeconfig := filepath.Join(n.dir, "kubeconfig")
	text := fmt.Sprintf(
		"clusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: "+
			"c}}]\ncurrent-context: c\n", c.api.URL())
	testutil.Must(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	n.flags = append(n.flags, "--kubeconfig", kubeconfig)
	return c
}

// bind gives the node a pod, as the scheduler would. The pod's name ends with the node's name, like the name of a
// static pod. The name is also the UID. So parallel tests never share a pod.
func (c *clusterNode) bind(text string) *v1.Pod {
	c.t.Helper()
	pod := &v1.Pod{}
	testutil.Must(c.t, yaml.UnmarshalStrict([]byte(c.expand(text)), pod))
	pod.Name += "-" + c.name
	pod.Namespace, pod.UID, pod.Spec.NodeName, pod.Generation = "default", types.UID(pod.Name), c.name, 1
	pod.CreationTimestamp, pod.Status.Phase = metav1.Now(), v1.PodPending
	manifest.SetDefaults(pod)
	c.api.Set(pod)
	return pod
}

// change changes a pod at the server.
func (c *clusterNode) change(pod *v1.Pod, change func(*v1.Pod)) {
	c.t.Helper()
	now, ok := c.api.Object(pod).(*v1.Pod)
	if !ok {
		c.t.Fatalf("the server has no pod %s", pod.Name)
	}
	change(now)
	now.Generation++
	c.api.Set(now)
}

// shows waits until the server's pod is as check wants it, and returns it.
func (c *clusterNode) shows(pod *v1.Pod, what string, check func(*v1.Pod) error) *v1.Pod {
	c.t.Helper()
	return c.showsWithin(patience, pod, what, check)
}

// showsWithin is shows with its own time limit.
func (c *clusterNode) showsWithin(
	within time.Duration, pod *v1.Pod, what string, check func(*v1.Pod) error,
) *v1.Pod {
	c.t.Helper()
	var now *v1.Pod
	testutil.EventuallyWithin(c.t, within, what, func() error {
		var ok bool
		if now, ok = c.api.Object(pod).(*v1.Pod); !ok {
			return fmt.Errorf("the server has no pod %s", pod.Name)
		}
		return check(now)
	})
	return now
}

func (c *clusterNode) showsReady(pod *v1.Pod) *v1.Pod {
	c.t.Helper()
	return c.shows(pod, "pod "+pod.Name+" is ready", func(now *v1.Pod) error {
		return wantReady(now, v1.ConditionTrue)
	})
}

// end has a pod deleted and waits until the server has forgotten it.
func (c *clusterNode) end(pod *v1.Pod) {
	c.t.Helper()
	c.change(pod, func(now *v1.Pod) {
		now.DeletionTimestamp, now.DeletionGracePeriodSeconds = &metav1.Time{
			Time: metav1.Now().Rfc3339Copy().Time}, new(int64(1))
	})
	eventually(c.t, "pod "+pod.Name+" is gone", func() error {
		if c.api.Object(pod) != nil {
			return fmt.Errorf("the server has it")
		}
		return nil
	})
}

// conditionOf returns the condition of this type, or nil if the pod has none.
func conditionOf(pod *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	return model.FindCondition(pod.Status.Conditions, kind)
}
