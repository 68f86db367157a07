package cluster

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/criadapter/criadapter/internal/testutil"
)

// nriAnnotation is the annotation of a pod with the value of FROM_PLUGIN for its containers.
const nriAnnotation = "nri.test/env"

// envPlugin is an NRI plugin that sets the variable FROM_PLUGIN. It refuses an empty value.
type envPlugin struct{}

// CreateContainer implements stub.CreateContainerInterface.
func (envPlugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, _ *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	value, asked := pod.GetAnnotations()[nriAnnotation]
	if !asked {
		return nil, nil, nil
	}
	if value == "" {
		return nil, nil, fmt.Errorf("the annotation %s of %s is empty", nriAnnotation, pod.GetName())
	}
	a := &api.ContainerAdjustment{}
	a.AddEnv("FROM_PLUGIN", value)
	return a, nil, nil
}

// nriPlugin runs a pod that a plugin adjusts, and a pod that it refuses. The refused pod waits with
// CreateContainerError.
func nriPlugin(s *scene) {
	plugin, err := stub.New(envPlugin{}, stub.WithPluginName("env"), stub.WithPluginIdx("10"),
		stub.WithSocketPath(s.node.nri))
	testutil.Must(s, err)
	testutil.Must(s, plugin.Start(s.Context()))
	s.Cleanup(plugin.Stop)
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {` + nriAnnotation + `: %q}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "echo $FROM_PLUGIN; sleep 3600"]}
`
	s.apply(fmt.Sprintf(pod, "adjusted", "hello"))
	s.apply(fmt.Sprintf(pod, "refused", ""))
	s.ready("pod/adjusted")
	s.prints("hello", "logs", "adjusted")
	s.eventually("the refused pod waits with CreateContainerError", func() error {
		status := s.pod("refused").Status
		for _, c := range status.ContainerStatuses {
			if waiting := c.State.Waiting; waiting != nil && waiting.Reason == "CreateContainerError" {
				return nil
			}
		}
		return fmt.Errorf("its status is %v", status)
	})
}
