package kubelet

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// TestImageVolumes mounts an image, whole and in part, and keeps a pod waiting whose image or part does not exist.
func TestImageVolumes(t *testing.T) {
	n := newNode(t)
	multi := n.env.Image("test/multi:c")
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: model, image: {reference: "IMAGE"}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "cat /model/multi /one; touch /model/new 2>/dev/null || echo read-only; ls /model/bin/sh; echo the end; sleep 1000"]
    volumeMounts: [{name: model, mountPath: /model}, {name: model, mountPath: /one, subPath: PART}]
`
	write := func(name, image, part string) {
		n.write(name+".yaml", strings.NewReplacer("NAME", name, "IMAGE", image, "PART", part).Replace(pod))
	}
	write("reader", multi, "multi")
	reader := n.ready("reader")
	n.logHas(reader, "main", 0, "the end")
	if got, want := n.log(reader, "main", 0), "multi\nmulti\nread-only\n/model/bin/sh\nthe end\n"; got != want {
		t.Errorf("the container saw %q, want %q", got, want)
	}
	n.event("reader", "Pulled")
	write("part", multi, "no/such")
	write("image", n.env.Image("test/no-such:1"), "multi")
	for name, reason := range map[string]string{"part": "ImageVolumeMountFailed", "image": model.ReasonErrImagePull} {
		n.until(name, func(pod *v1.Pod) error {
			if waiting := status(pod, "main").State.Waiting; waiting == nil || waiting.Reason != reason {
				return fmt.Errorf("it does not wait for %s: %s", reason, states(pod))
			}
			return nil
		})
	}
	n.remove("reader.yaml")
	n.gone("reader")
}
