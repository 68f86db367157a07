package allocation

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// TestMessage: events of resizes have the kubelet's messages.
func TestMessage(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "side:s app:a")
	pod.Generation = 2
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	testutil.Equal(t, Message("Pod resize error", pod, "no room"), `Pod resize error: {"initContainers":[{"name":"s",`+
		`"resources":{}}],"containers":[{"name":"a","resources":{"limits":{"memory":"64Mi"}}}],"generation":2,`+
		`"error":"no room"}`, "message")
}
