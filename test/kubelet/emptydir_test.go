package kubelet

import (
	"strings"
	"testing"
)

// TestEmptyDirLivesAsLongAsItsPod checks that files of a volume, on disk and in memory, survive the death of a
// container and of the sandbox. After an edit of the manifest, the new pod begins with empty volumes.
func TestEmptyDirLivesAsLongAsItsPod(t *testing.T) {
	n := newNode(t)
	const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {version: VERSION}}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo x | tee -a /disk/runs >> /memory/runs; echo runs $(wc -l < /disk/runs) $(wc -l < /memory/runs); sleep 1000"]
    volumeMounts: [{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]
`
	n.write("pod.yaml", strings.ReplaceAll(manifest, "VERSION", "one"))
	pod := n.ready("pod")
	n.logHas(pod, "main", 0, "runs 1 1\n")
	n.killContainers(id(pod, "main"))
	n.restarted("pod", "main", 1)
	n.logHas(pod, "main", 1, "runs 2 2\n")
	n.ready("pod")
	n.endSandboxes(pod)
	n.restarted("pod", "main", 2)
	n.logHas(pod, "main", 2, "runs 3 3\n")
	n.write("pod.yaml", strings.ReplaceAll(manifest, "VERSION", "two"))
	n.logHas(n.replaced(pod), "main", 0, "runs 1 1\n")
}
