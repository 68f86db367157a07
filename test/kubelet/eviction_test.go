package kubelet

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// hungry is a pod whose container writes as DOES says.
const hungry = `
metadata: {name: NAME}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 60
  volumes: [{name: scratch, emptyDir: {VOLUME}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "DOES; sleep 1000"]
    resources: {LIMITS}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
`

// bindHungry gives the node such a pod.
func (c *clusterNode) bindHungry(name, does, volume, limits string) *v1.Pod {
	return c.bind(strings.NewReplacer("NAME", name, "DOES", does, "VOLUME", volume, "LIMITS", limits).Replace(hungry))
}

// evicted wants a pod to have failed, as one that the kubelet evicted, with a message that begins so.
func evicted(message string) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "Evicted" || !strings.HasPrefix(pod.Status.Message, message) {
			return fmt.Errorf("%s %s: %s, want Evicted: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, message)
		}
		if state := status(pod, "main").State; state.Terminated == nil {
			return fmt.Errorf("its container is %+v", state)
		}
		return nil
	}
}

// TestLocalStorageLimits evicts pods that write more than they may: into an emptyDir, into the container's own layer,
// into its log, and in all places together. Those within their limits run on.
func TestLocalStorageLimits(t *testing.T) {
	const write8Mi = "dd if=/dev/zero of=%s bs=1M count=8"
	n := newClusterNode(t)
	limit := func(amount string) string { return fmt.Sprintf("limits: {ephemeral-storage: %s}", amount) }
	modest := n.bindHungry("modest", fmt.Sprintf(write8Mi, "/scratch/x"), "sizeLimit: 64Mi", limit("256Mi"))
	over := map[*v1.Pod]string{
		n.bindHungry("volume", fmt.Sprintf(write8Mi, "/scratch/x"), "sizeLimit: 4Mi", ""):                                      `Usage of EmptyDir volume "scratch" exceeds the limit "4Mi".`,
		n.bindHungry("layer", fmt.Sprintf(write8Mi, "/x"), "", limit("4Mi")):                                                   `Pod ephemeral local storage usage exceeds the total limit of containers 4Mi.`,
		n.bindHungry("log", "for i in $(seq 8); do head -c 1048576 /dev/zero | tr '\\\\0' 'x' | fold; done", "", limit("4Mi")): `Pod ephemeral local storage usage exceeds the total limit of containers 4Mi.`,
		n.bindHungry("together", fmt.Sprintf(write8Mi, "/scratch/x")+"; "+fmt.Sprintf(write8Mi, "/x"), "", limit("12Mi")):      `Pod ephemeral local storage usage exceeds the total limit of containers 12Mi.`,
	}
	for pod, message := range over {
		n.shows(pod, "pod "+pod.Name+" is evicted", evicted(message))
		event := n.eventOf(pod.Name, "Evicted")
		if event.Message != message || event.Type != v1.EventTypeWarning {
			t.Errorf("%s: event %s: %s", pod.Name, event.Type, event.Message)
		}
	}

	now := n.showsReady(modest)
	if restarts := status(now, "main").RestartCount; restarts != 0 {
		t.Errorf("the modest pod was restarted %d times", restarts)
	}
}

// TestContainerStorageLimit evicts a pod one of whose containers is over its limit, though the pod as a whole is not.
func TestContainerStorageLimit(t *testing.T) {
	n := newClusterNode(t)
	pod := n.bind(`
metadata: {name: pair}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "dd if=/dev/zero of=/x bs=1M count=8; sleep 1000"], resources: {limits: {ephemeral-storage: 4Mi}}}
  - {name: other, image: SHELL, command: [sleep, "1000"], resources: {limits: {ephemeral-storage: 256Mi}}}
`)
	n.shows(pod, "the pod is evicted", evicted(`Container main exceeded its local ephemeral storage limit "4Mi".`))
}
