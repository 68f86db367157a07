package takeover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// manifest is a static pod of the namespace shop.
type manifest struct {
	uid string
	// spec has the indented lines of the pod's spec. See write for its placeholders.
	spec string
}

// pods are the pods by name, with each kind of pod that a take-over treats differently.
var pods = map[string]manifest{
	"web": {"1111aaaa", `
  initContainers:
  - {name: init, image: SHELL, imagePullPolicy: IfNotPresent, command: [sh, -c, "echo made > /data/made"], volumeMounts: [{name: data, mountPath: /data}]}
  containers:
  - name: app
    image: SHELL
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "cat /data/made; i=0; while true; do echo line $i; i=$((i+1)); sleep 0.02; done"]
    volumeMounts: [{name: data, mountPath: /data}, {name: host, mountPath: /host, readOnly: true}]
    ports: [{containerPort: 80, hostPort: 18080}, {containerPort: 53, hostPort: 18053, protocol: UDP}]
  - {name: side, image: SHELL, imagePullPolicy: IfNotPresent, stdin: true, tty: true, command: [cat]}
  volumes: [{name: data, emptyDir: {}}, {name: host, hostPath: {path: HOST}}]
`},
	"history": {"2222bbbb", `
  containers:
  - name: app
    image: SHELL
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; while true; do echo line $i; i=$((i+1)); sleep 0.02; done"]
`},
	"node": {"3333cccc", `
  hostNetwork: true
  containers:
  - {name: app, image: SHELL, imagePullPolicy: IfNotPresent, command: LINES}
`},
	"crash": {"4444dddd", `
  containers:
  - name: app
    image: SHELL
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "if mkdir /data/crashed; then echo crashing; exit 3; fi; i=0; while true; do echo line $i; i=$((i+1)); sleep 0.1; done"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`},
	"done": {"5555eeee", `
  restartPolicy: Never
  containers:
  - {name: bad, image: SHELL, imagePullPolicy: IfNotPresent, command: [sh, -c, "echo failed; exit 7"]}
  - {name: good, image: SHELL, imagePullPolicy: IfNotPresent, command: LINES}
`},
	"pids": {"6666ffff", `
  shareProcessNamespace: true
  containers:
  - {name: app, image: SHELL, imagePullPolicy: IfNotPresent, command: LINES}
`},
}

// running and ended are the numbers of running and ended containers, once all pods are up.
const (
	running = 7
	ended   = 3 // init, the first attempt of crash, bad
)

// history is the number of lines that the pod history writes without a pause.
const history = 20000

// seenContainer has the fields of a container that must not change.
type seenContainer struct {
	id, state         string
	attempt           uint32
	started, finished int64
	exitCode          int32
}

// seenPod has the fields of a pod that must not change.
type seenPod struct {
	id, state string
	ips       []string
	created   int64
	attempt   uint32
	host      bool
}

// view is the pods and containers as the CRI server shows them.
type view struct {
	pods       map[string]seenPod
	containers map[string]seenContainer
}

func (n *node) look() (view, error) {
	v := view{pods: map[string]seenPod{}, containers: map[string]seenContainer{}}
	sandboxes, err := n.cri.ListPodSandbox(n.t.Context(), nil)
	if err != nil {
		return v, err
	}
	names := map[string]string{}
	for _, s := range sandboxes {
		status, err := n.cri.PodSandboxStatus(n.t.Context(), s.GetId(), false)
		if err != nil {
			return v, err
		}
		name := baseName(s.GetMetadata().GetName())
		names[s.GetId()] = name
		p := seenPod{
			id: s.GetId(), state: s.GetState().String(), created: status.GetStatus().GetCreatedAt(),
			attempt: s.GetMetadata().GetAttempt(),
			host: status.GetStatus().GetLinux().GetNamespaces().GetOptions().
				GetNetwork() == runtimeapi.NamespaceMode_NODE,
		}
		if ip := status.GetStatus().GetNetwork().GetIp(); ip != "" {
			p.ips = append(p.ips, ip)
		}
		for _, more := range status.GetStatus().GetNetwork().GetAdditionalIps() {
			p.ips = append(p.ips, more.GetIp())
		}
		v.pods[fmt.Sprintf("%s#%d", name, p.attempt)] = p
	}
	containers, err := n.cri.ListContainers(n.t.Context(), nil)
	if err != nil {
		return v, err
	}
	for _, c := range containers {
		status, err := n.cri.ContainerStatus(n.t.Context(), c.GetId(), false)
		if err != nil {
			return v, err
		}
		s := status.GetStatus()
		v.containers[fmt.Sprintf("%s/%s#%d", names[c.GetPodSandboxId()], c.GetMetadata().GetName(),
			c.GetMetadata().GetAttempt())] = seenContainer{
			id: c.GetId(), state: s.GetState().String(), attempt: c.GetMetadata().GetAttempt(),
			// cri-dockerd shows Go's zero time for a running container.
			started: s.GetStartedAt(), finished: max(0, s.GetFinishedAt()),
			exitCode: s.GetExitCode(),
		}
	}
	return v, nil
}

// baseName removes the suffix that a kubelet adds to the names of static pods.
func baseName(name string) string { return strings.TrimSuffix(name, "-node") }

func (v view) count(state runtimeapi.ContainerState) int {
	count := 0
	for _, c := range v.containers {
		if c.state == state.String() {
			count++
		}
	}
	return count
}

// bringUp writes the manifests and waits until all pods are up.
func (n *node) bringUp() view {
	n.t.Helper()
	for name, pod := range pods {
		n.write(name, pod)
	}
	var v view
	testutil.EventuallyWithin(n.t, patience, "all pods are up", func() error {
		var err error
		if v, err = n.look(); err != nil {
			return err
		}
		if v.count(runtimeapi.ContainerState_CONTAINER_RUNNING) != running ||
			v.count(runtimeapi.ContainerState_CONTAINER_EXITED) != ended {
			return fmt.Errorf("got %s", v)
		}
		if last := n.lastLine(n.logPath("history", "app", 0)); last < history {
			return fmt.Errorf("the history is at line %d", last)
		}
		return nil
	})
	return v
}

// String lists the pods and containers, one a line.
func (v view) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(v.pods)) {
		fmt.Fprintf(&b, "\n%s %+v", name, v.pods[name])
	}
	for _, name := range slices.Sorted(maps.Keys(v.containers)) {
		fmt.Fprintf(&b, "\n  %s %+v", name, v.containers[name])
	}
	return b.String()
}

// settle is how long nothing may change after a swap. The kubelet syncs each pod a few times in this time.
const settle = 15 * time.Second

// same compares the pods with before, repeatedly for the time settle.
func (n *node) same(before view) {
	n.t.Helper()
	for deadline := time.Now().Add(settle); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		after, err := n.look()
		testutil.Must(n.t, err)
		diff := before.differs(after)
		testutil.Require(n.t, diff == "", "the swap has changed the node:%s\nbefore:%s\nafter:%s", diff, before, after)
	}
}

// differs lists the differences.
func (v view) differs(now view) string {
	var diffs []string
	for name := range union(v.pods, now.pods) {
		if a, b := fmt.Sprintf("%+v", v.pods[name]), fmt.Sprintf("%+v", now.pods[name]); a != b {
			diffs = append(diffs, fmt.Sprintf("\npod %s was %s, is %s", name, a, b))
		}
	}
	for name := range union(v.containers, now.containers) {
		if a, b := v.containers[name], now.containers[name]; a != b {
			diffs = append(diffs, fmt.Sprintf("\ncontainer %s was %+v, is %+v", name, a, b))
		}
	}
	slices.Sort(diffs)
	return strings.Join(diffs, "")
}

// union has the entries of both maps.
func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
