package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestConfigMapUpdate edits a config map while a container has it mounted. The container sees all new contents at once,
// and is not restarted. A failed read does not count, because the old directory may be removed while the reader is in
// it.
func TestConfigMapUpdate(t *testing.T) {
	n := newNode(t)
	const settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: COLOR, shade: COLOR}
`
	n.write("settings.yaml", strings.ReplaceAll(settings, "COLOR", "red"))
	n.writePod("reader", `
  terminationGracePeriodSeconds: 0
  volumes: [{name: settings, configMap: {name: settings}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "while :; do cd /settings/..data && both=$(cat color shade 2>&1) && echo $both; sleep 0.1; done"]
    volumeMounts: [{name: settings, mountPath: /settings}]
`)
	pod := n.ready("reader")
	n.logHas(pod, "main", 0, "redred")
	n.write("settings.yaml", strings.ReplaceAll(settings, "COLOR", "blue"))
	n.logHas(pod, "main", 0, "blueblue")
	for line := range strings.Lines(n.log(pod, "main", 0)) {
		if line = strings.TrimSpace(line); line != "redred" && line != "blueblue" {
			t.Errorf("the container saw %q", line)
		}
	}
	got := status(n.ready("reader"), "main")
	testutil.Assert(t, got.RestartCount == 0, "the container was restarted %d times", got.RestartCount)
}

// TestConfigMapRemoved removes the config map of a running pod. The pod keeps the old contents, also for a container
// that is restarted. An event reports the removal.
func TestConfigMapRemoved(t *testing.T) {
	n := newNode(t)
	n.write("settings.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: red}}\n")
	n.writePod("reader", `
  terminationGracePeriodSeconds: 0
  volumes: [{name: settings, configMap: {name: settings}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo $(cat /settings/color); sleep 1000"]
    volumeMounts: [{name: settings, mountPath: /settings}]
`)
	pod := n.ready("reader")
	n.remove("settings.yaml")
	n.event("reader", "FailedMount")
	n.killContainers(id(pod, "main"))
	n.restarted("reader", "main", 1)
	n.logHas(n.ready("reader"), "main", 1, "red")
}

// TestVolumeKinds mounts one volume of each kind, with modes and owners. All of them go with the pod.
func TestVolumeKinds(t *testing.T) {
	n := newNode(t)
	testutil.Must(t, os.MkdirAll(filepath.Join(n.scratch(), "sub"), 0o755))
	n.write("pod.yaml", `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red, size: xl}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {token: t0p}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {app: volumes}}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 4242}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: host, hostPath: {path: SCRATCH, type: Directory}}
  - {name: conf, configMap: {name: settings, items: [{key: color, path: deep/color, mode: 0444}]}}
  - {name: key, secret: {secretName: key, defaultMode: 0400}}
  - name: all
    projected:
      sources:
      - {configMap: {name: settings}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  containers:
  - name: main
    image: SHELL
    command: [sh, -c]
    args:
    - |
      echo shared > /disk/file && stat -c 'disk %g %a' /disk && cat /scratch/file
      dd if=/dev/zero of=/memory/big bs=1M count=2 2>/dev/null || echo memory is limited
      cat /conf/deep/color; echo
      stat -L -c 'key %g %a' /key/token; cat /key/token; echo; touch /key/new 2>/dev/null || echo key is read-only
      cat /all/size; echo; cat /all/labels; echo
      cat /color; echo
      ls -d /host/sub /part && grep ' /key ' /proc/mounts | cut -d' ' -f1
      touch /ro/x 2>/dev/null || echo ro is read-only
      echo the end; sleep 1000
    env: [{name: PART, value: sub}]
    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /scratch}
    - {name: disk, mountPath: /ro, readOnly: true}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /host}
    - {name: host, mountPath: /part, subPathExpr: $(PART)}
    - {name: conf, mountPath: /conf}
    - {name: conf, mountPath: /color, subPath: deep/color}
    - {name: key, mountPath: /key}
    - {name: all, mountPath: /all}
`)
	pod := n.ready("pod")
	n.logHas(pod, "main", 0, "the end")
	const want = `disk 4242 2777
shared
memory is limited
red
key 4242 440
t0p
key is read-only
xl
app="volumes"
red
/host/sub
/part
tmpfs
ro is read-only
the end
`
	testutil.Equal(t, n.log(pod, "main", 0), want, "what the container saw")
	directory := model.PodDirectory(n.root, pod.UID)
	mounts := mountsIn(t, directory)
	testutil.Assert(t, len(mounts) >= 5,
		"mounts of the pod on the host: %v; want three volumes in memory and two subPaths at least", mounts)
	n.end("pod")
	eventually(t, "the pod's directory is gone", func() error {
		if _, err := os.Stat(directory); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
	mounts = mountsIn(t, directory)
	testutil.Assert(t, len(mounts) == 0, "still mounted: %v", mounts)
	_, err := os.Stat(filepath.Join(n.scratch(), "sub"))
	testutil.Assert(t, err == nil, "the host's own directory: %v", err)
}

// TestMissingConfigMap lets a pod wait for a config map of a volume or of the environment. Events and statuses name the
// config map.
func TestMissingConfigMap(t *testing.T) {
	n := newNode(t)
	n.writePod("mounts", `
  terminationGracePeriodSeconds: 0
  volumes: [{name: late, configMap: {name: late}}, {name: never, secret: {secretName: never, optional: true}}]
  containers:
  - {name: main, image: SHELL, command: [sleep, "1000"], volumeMounts: [{name: late, mountPath: /late}]}
`)
	n.writePod("environment", `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "echo got $LATE; sleep 1000"], env: [{name: LATE, valueFrom: {configMapKeyRef: {name: late, key: text}}}]}
`)
	event := n.event("mounts", "FailedMount")
	testutil.Assert(t, strings.Contains(event.Message, `volume "late"`) &&
		strings.Contains(event.Message, "default/late"), "the event says %q", event.Message)
	n.until("environment", wantWaiting("main", "default/late", model.ReasonCreateConfigError))
	n.write("late.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late}\ndata: {text: word}\n")
	n.ready("mounts")
	n.logHas(n.ready("environment"), "main", 0, "got word")
}

// TestHostPathType refuses a path of another type, and makes the paths of the types with OrCreate.
func TestHostPathType(t *testing.T) {
	n := newNode(t)
	n.writePod("socket", `
  volumes: [{name: v, hostPath: {path: SCRATCH, type: Socket}}]
  containers: [{name: main, image: SHELL, command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /v}]}]
`)
	n.writePod("made", `
  terminationGracePeriodSeconds: 0
  volumes: [{name: dir, hostPath: {path: SCRATCH/new/dir, type: DirectoryOrCreate}}, {name: file, hostPath: {path: SCRATCH/new/file, type: FileOrCreate}}]
  containers: [{name: main, image: SHELL, command: [sh, -c, "ls -d /dir /file; sleep 1000"], volumeMounts: [{name: dir, mountPath: /dir}, {name: file, mountPath: /file}]}]
`)
	event := n.event("socket", "FailedMount")
	testutil.Assert(t, strings.Contains(event.Message, "is not a Socket"), "the event says %q", event.Message)
	n.logHas(n.ready("made"), "main", 0, "/dir\n/file\n")
}

// TestClaims: a claim of a static pod is a directory that outlives the pod, or a persistent volume of the manifests.
func TestClaims(t *testing.T) {
	n := newNode(t)
	n.write("objects.yaml", fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], local: {path: %q}, claimRef: {name: bound}}
`, n.scratch()))
	const spec = `
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: own, persistentVolumeClaim: {claimName: own}}
  - {name: bound, persistentVolumeClaim: {claimName: bound, readOnly: READONLY}}
  containers:
  - name: main
    image: SHELL
    securityContext: {runAsUser: 1234}
    command:
    - sh
    - -c
    - |
      echo NAME >> /own/pods
      echo pods $(cat /own/pods)
      touch /bound/NAME 2>/dev/null
      ls /bound
      sleep 1000
    volumeMounts: [{name: own, mountPath: /own}, {name: bound, mountPath: /bound}]
`
	pod := func(name, readOnly string) *v1.Pod {
		n.writePod(name, strings.NewReplacer("NAME", name, "READONLY", readOnly).Replace(spec))
		return n.ready(name)
	}
	testutil.Must(t, os.Chmod(n.scratch(), 0o777))
	n.logHas(pod("first", "false"), "main", 0, "pods first\nfirst\n")
	n.end("first")
	n.remove("objects.yaml") // claims stay bound
	second := pod("second", "true")
	n.logHas(second, "main", 0, "pods first second\nfirst\n")
	testutil.Gone(t, filepath.Join(n.scratch(), "second"), "the read-only volume was written to")
}
