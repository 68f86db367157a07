package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestEnvironment checks environment variables from all sources.
func TestEnvironment(t *testing.T) {
	n := newNode(t)
	n.write("pod.yaml", `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red, size: xl}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
data: {token: dDBw}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {app: env}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "env; echo args $0 $*; sleep 1000", $(GREETING)]
    args: [$$(GREETING), $(NONE)]
    resources: {limits: {memory: 64Mi}}
    envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: key}, prefix: KEY_}, {configMapRef: {name: none, optional: true}}]
    env:
    - {name: color, value: dark $(color)}
    - {name: GREETING, value: hello $(size)}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: NODE_DISK, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage}}}
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: key, key: token}}}
    - {name: NOTHING, valueFrom: {secretKeyRef: {name: key, key: none, optional: true}}}
`)
	pod := n.ready("pod")
	n.logHas(pod, "main", 0, "args ")
	log := "\n" + n.log(pod, "main", 0)
	for _, want := range []string{
		"color=dark red", "size=xl", "KEY_token=t0p", "GREETING=hello xl", "POD=" + pod.Name, "APP=env",
		"NODE=" + n.name, "IP=" + pod.Status.PodIP,
		"HOST=127.0.0.1", "LIMIT=64", "TOKEN=t0p", "args hello xl $(GREETING) $(NONE)",
	} {
		testutil.Assert(t, strings.Contains(log, "\n"+want+"\n"), "no line %q in%s", want, log)
	}
	testutil.Assert(t, !strings.Contains(log, "NODE_DISK=0\n") && strings.Contains(log, "NODE_DISK="),
		"without a limit of ephemeral storage, the variable lacks the node's allocatable storage:%s", log)
	testutil.Assert(t, !strings.Contains(log, "NOTHING"), "an optional key that does not exist became a variable")
}

// TestSecurityContext compares a container's security context with the kernel's state.
func TestSecurityContext(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 0
  securityContext:
    runAsUser: 1000
    runAsGroup: 2000
    supplementalGroups: [3000]
    fsGroup: 4000
    sysctls: [{name: net.ipv4.tcp_syncookies, value: "0"}]
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: main
    image: SHELL
    command: [sh, -c]
    args:
    - |
      echo ids $(id -u) $(id -g) $(id -G)
      echo sysctl $(cat /proc/sys/net/ipv4/tcp_syncookies)
      grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t' ' '
      touch /x 2>/dev/null || echo root is read-only
      cat /proc/kcore >/dev/null 2>&1 || echo kcore is masked
      echo the end; sleep 1000
    securityContext:
      readOnlyRootFilesystem: true
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
  - name: other
    image: SHELL
    command: [sh, -c, "echo ids $(id -u) $(id -g); grep Seccomp: /proc/self/status | tr '\t' ' '; echo the end; sleep 1000"]
    securityContext: {runAsUser: 0, runAsGroup: 0, seccompProfile: {type: Unconfined}}
`)
	pod := n.ready("pod")
	n.logHas(pod, "main", 0, "the end")
	n.logHas(pod, "other", 0, "the end")
	const want = "sysctl 0\nNoNewPrivs: 1\nSeccomp: 2\nCapBnd: 0000000000000400\nroot is read-only\n"
	log := n.log(pod, "main", 0)
	for line := range strings.Lines(want) {
		testutil.Assert(t, strings.Contains(log, line), "no line %q in\n%s", line, log)
	}
	ids, _, _ := strings.Cut(log, "\n")
	for _, group := range []string{"2000", "3000", "4000"} {
		testutil.Assert(t, strings.HasPrefix(ids, "ids 1000 2000 ") && strings.Contains(ids+" ", " "+group+" "),
			"%q lacks the group %s", ids, group)
	}
	testutil.Equal(t, n.log(pod, "other", 0), "ids 0 0\nSeccomp: 0\nthe end\n", "the other container's log")
}

// TestRunAsNonRoot: the kubelet refuses an image that runs as root, and says why.
func TestRunAsNonRoot(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true}
  containers:
  - {name: root, image: SHELL, command: [sleep, "1000"]}
  - {name: user, image: SHELL, command: [sleep, "1000"], securityContext: {runAsUser: 1000}}
`)
	n.until("pod", func(pod *v1.Pod) error {
		if status(pod, "user").State.Running == nil {
			return fmt.Errorf("the other one does not run: %s", states(pod))
		}
		return wantWaiting("root", "image will run as root", model.ReasonCreateConfigError)(pod)
	})
}

// TestNamesAndDNS checks a pod's host name, hosts file and resolver configuration.
func TestNamesAndDNS(t *testing.T) {
	n := newNode(t, "--cluster-dns", "192.0.2.53", "--cluster-domain", "cluster.test")
	const command = `command: [sh, -c, "hostname; cat /etc/hosts /etc/resolv.conf; echo the end; sleep 1000"]`
	n.writePod("cluster", `
  terminationGracePeriodSeconds: 0
  hostname: me
  subdomain: sub
  hostAliases: [{ip: 192.0.2.99, hostnames: [alias, other]}]
  dnsConfig: {nameservers: [192.0.2.54], options: [{name: timeout, value: "7"}]}
  containers: [{name: main, image: SHELL, `+command+`}]
`)
	n.writePod("none", `
  terminationGracePeriodSeconds: 0
  dnsPolicy: None
  dnsConfig: {nameservers: [192.0.2.55], searches: [a.test]}
  containers: [{name: main, image: SHELL, `+command+`}]
`)
	n.writePod("host", `
  terminationGracePeriodSeconds: 0
  hostNetwork: true
  containers: [{name: main, image: SHELL, `+command+`}]
`)
	host, err := os.Hostname()
	testutil.Must(t, err)
	cluster, none := n.ready("cluster"), n.ready("none")
	for _, c := range []struct {
		pod  *v1.Pod
		want []string
	}{
		{cluster, []string{"me\n", cluster.Status.PodIP + "\tme.sub.default.svc.cluster.test\tme\n",
			"192.0.2.99\talias\tother\n", "nameserver 192.0.2.53\nnameserver 192.0.2.54\n",
			"search default.svc.cluster.test svc.cluster.test cluster.test", "ndots:5 timeout:7"}},
		{none, []string{none.Name + "\n", "search a.test\n", "nameserver 192.0.2.55\n"}},
		{n.ready("host"), []string{host + "\n", "# Kubernetes-managed hosts file (host network).\n"}},
	} {
		n.logHas(c.pod, "main", 0, "the end")
		log := n.log(c.pod, "main", 0)
		for _, want := range c.want {
			testutil.Assert(t, strings.Contains(log, want), "%s: no %q in\n%s", c.pod.Name, want, log)
		}
	}
}

// TestResources checks a pod's limits in the cgroups of its container and of the pod.
func TestResources(t *testing.T) {
	rigenv.RequireControllers(t, "cpu", "memory")
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "cat /proc/self/cgroup; echo oom $(cat /proc/self/oom_score_adj); echo the end; sleep 1000"], resources: {requests: {cpu: 100m}, limits: {memory: 32Mi, cpu: 500m}}}
  - {name: other, image: SHELL, command: [sleep, "1000"], resources: {limits: {memory: 16Mi, cpu: 100m}}}
`)
	pod := n.ready("pod")
	testutil.Assert(t, pod.Status.QOSClass == v1.PodQOSBurstable, "class %s", pod.Status.QOSClass)
	n.logHas(pod, "main", 0, "the end")
	log := n.log(pod, "main", 0)
	// 32 MiB are at most a few thousandths of this machine's memory, so the score is close to the best-effort score.
	testutil.Assert(t, strings.Contains(log, "oom 9"),
		"the oom_score_adj is not a burstable container's:\n%s", log)
	own := "/kubepods/burstable/pod" + string(pod.UID)
	for file, want := range map[string]string{"memory.limit_in_bytes memory.max": "50331648",
		"cpu.shares cpu.weight": "204 8"} {
		got := n.podCgroup(own, strings.Fields(file))
		testutil.Assert(t, strings.Contains(" "+want+" ", " "+got+" "),
			"%s of the pod's cgroup is %q, want one of %q", file, got, want)
	}
	if !strings.Contains(log, own+"/") && !strings.Contains(log, "0::/\n") {
		t.Errorf("the container is not below the pod's cgroup %s:\n%s", own, log)
	}
	n.end("pod")
	eventually(t, "the pod's cgroup is gone", func() error {
		if found := cgroups.Find(n.cgroup() + own); len(found) > 0 {
			return fmt.Errorf("there is %v", found)
		}
		return nil
	})
}

// memoryLimit is the file with a cgroup's memory limit, in cgroup v1 and v2.
var memoryLimit = []string{"memory.limit_in_bytes", "memory.max"}

// podCgroup returns the content of the first of files that exists in a cgroup. end is the cgroup's path below the
// node's cgroup.
func (n *node) podCgroup(end string, files []string) string {
	n.t.Helper()
	for _, directory := range cgroups.Find(n.cgroup() + end) {
		for _, file := range files {
			if content, err := os.ReadFile(filepath.Join(directory, file)); err == nil {
				return strings.TrimSpace(string(content))
			}
		}
	}
	return "no such file"
}

// TestSharedProcessNamespace: a container sees another container's processes only if both share the PID namespace.
func TestSharedProcessNamespace(t *testing.T) {
	n := newNode(t)
	const spec = `
  terminationGracePeriodSeconds: 0
  shareProcessNamespace: SHARE
  containers:
  - {name: sleeper, image: SHELL, command: [sleep, "4711"]}
  - {name: main, image: SHELL, command: [sh, -c, "sleep 1; ps | grep -c '[s]leep 4711'; sleep 1000"]}
`
	for name, want := range map[string]string{"true": "1\n", "false": "0\n"} {
		n.writePod("share-"+name, strings.ReplaceAll(spec, "SHARE", name))
		pod := n.ready("share-" + name)
		n.logHas(pod, "main", 0, "\n")
		testutil.Equal(t, n.log(pod, "main", 0), want, "shared %s: the container sees", name)
	}
}

// TestTerminationMessage checks that the status has a container's last message, from its file or its log.
func TestTerminationMessage(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  restartPolicy: Never
  containers:
  - {name: file, image: SHELL, command: [sh, -c, "echo written; echo last words > /dev/termination-log; exit 3"]}
  - {name: own, image: SHELL, command: [sh, -c, "echo own words > /tmp/words"], terminationMessagePath: /tmp/words}
  - {name: log, image: SHELL, command: [sh, -c, "echo logged words; exit 3"], terminationMessagePolicy: FallbackToLogsOnError}
`)
	pod := n.until("pod", wantPhase(v1.PodFailed))
	for name, want := range map[string]string{"file": "last words\n", "own": "own words\n", "log": "logged words\n"} {
		end := status(pod, name).State.Terminated
		testutil.Assert(t, end != nil && end.Message == want, "%s: %s; want the message %q", name, states(pod), want)
	}
}
