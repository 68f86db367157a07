package admission

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/testutil"
)

// theNode has two CPUs, 4 GiB and room for three pods.
const theNode = `
metadata: {name: here, labels: {kubernetes.io/hostname: here, disk: fast, size: "7"}}
status:
  allocatable: {cpu: "2", memory: 4Gi, ephemeral-storage: 10Gi, pods: "3", hugepages-2Mi: 4Mi, example.com/card: "1"}
  conditions:
  - {type: MemoryPressure, status: "False"}
  - {type: DiskPressure, status: "False"}
  - {type: Ready, status: "True"}
`

// thePod fits the node.
const thePod = `
metadata: {name: pod, namespace: ns, uid: pod}
spec:
  nodeName: here
  containers: [{name: c, image: image, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
`

// theOther runs on the node.
const theOther = `
metadata: {name: other, namespace: ns, uid: other}
spec:
  containers:
  - name: c
    image: image
    ports: [{hostPort: 80, containerPort: 80, hostIP: 192.0.2.1}, {hostPort: 81, containerPort: 8}]
    resources: {requests: {cpu: "1", memory: 1Gi, ephemeral-storage: 6Gi}}
`

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	testutil.Must(t, yaml.UnmarshalStrict([]byte(text), object))
	return object
}

// TestCheck: each case changes the pod or the node in one place.
func TestCheck(t *testing.T) {
	const resources = "{cpu: 500m, memory: 1Gi}"
	for _, test := range []struct {
		name     string
		pod      [2]string // a text in thePod, and its replacement
		node     [2]string // the same in theNode
		reason   string    // empty if the pod is admitted
		message  string    // part of it
		admitted bool
	}{
		{name: "fits"},
		{name: "cpu", pod: [2]string{resources, "{cpu: 1001m}"}, reason: "OutOfcpu",
			message: "cpu, requested: 1001, used: 1000, capacity: 2000"},
		{name: "cpu to the last", pod: [2]string{resources, "{cpu: 1}"}},
		{name: "memory", pod: [2]string{resources, "{memory: 4Gi}"}, reason: "OutOfmemory",
			message: "requested: 4294967296, used: 1073741824, capacity: 4294967296"},
		{name: "ephemeral storage", pod: [2]string{resources, "{ephemeral-storage: 5Gi}"},
			reason: "OutOfephemeral-storage", message: "ephemeral-storage"},
		{name: "cpu before memory", pod: [2]string{resources, "{memory: 9Gi, cpu: 9}"}, reason: "OutOfcpu"},
		{name: "huge pages", pod: [2]string{resources, "{hugepages-2Mi: 6Mi}"}, reason: "OutOfhugepages-2Mi",
			message: "hugepages-2Mi"},
		{name: "huge pages of a size that the node lacks", pod: [2]string{resources, "{hugepages-1Gi: 1Gi}"},
			reason: "OutOfhugepages-1Gi"},
		{name: "no requests on a full node", pod: [2]string{resources, "{}"},
			node: [2]string{`cpu: "2"`, `cpu: "0"`}},
		{name: "pods", node: [2]string{`pods: "3"`, `pods: "1"`}, reason: "OutOfpods",
			message: "pods, requested: 1, used: 1, capacity: 1"},
		{name: "init container",
			pod: [2]string{"containers:",
				"initContainers: [{name: i, image: x, resources: {requests: {cpu: 3}}}]\n  containers:"},
			reason: "OutOfcpu"},
		{name: "limit alone", pod: [2]string{"{requests: " + resources + "}", "{limits: {cpu: 3}}"},
			reason: "OutOfcpu"},

		{name: "nodeSelector", pod: [2]string{"nodeName: here", "nodeSelector: {disk: slow}"}, reason: "NodeAffinity",
			message: "node affinity/selector"},
		{name: "nodeSelector that matches", pod: [2]string{"nodeName: here", "nodeSelector: {disk: fast}"}},
		{name: "nodeSelector of a pod that runs", pod: [2]string{"nodeName: here", "nodeSelector: {disk: slow}"},
			admitted: true},
		{name: "affinity", pod: [2]string{"nodeName: here", affinity(`{key: disk, operator: NotIn, values: [fast]}`)},
			reason: "NodeAffinity"},
		{name: "affinity that matches",
			pod: [2]string{"nodeName: here", affinity(`{key: size, operator: Gt, values: ["6"]}`)}},
		{name: "affinity that is wrong",
			pod:    [2]string{"nodeName: here", affinity(`{key: size, operator: Gt, values: [much]}`)},
			reason: "UnexpectedAdmissionError", message: "much"},
		{name: "affinity to another node",
			pod: [2]string{"nodeName: here",
				`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` +
					`[{matchFields: [{key: metadata.name, operator: In, values: [there]}]}]}}}`},
			reason: "NodeAffinity"},
		{name: "another node", pod: [2]string{"nodeName: here", "nodeName: there"}, reason: "NodeName",
			message: "spec.nodeName"},

		{name: "port", pod: ports("{hostPort: 81, containerPort: 1}"), reason: "NodePorts",
			message: "TCP/:81 is pod ns/other's"},
		{name: "port at one address", pod: ports("{hostPort: 81, containerPort: 1, hostIP: 192.0.2.9}"),
			reason: "NodePorts"},
		{name: "port at all addresses", pod: ports("{hostPort: 80, containerPort: 1, hostIP: 0.0.0.0}"),
			reason: "NodePorts"},
		{name: "port at another address", pod: ports("{hostPort: 80, containerPort: 1, hostIP: 192.0.2.9}")},
		{name: "port of another protocol", pod: ports("{hostPort: 81, containerPort: 1, protocol: UDP}")},
		{name: "port of the host's network",
			pod: [2]string{"nodeName: here\n  containers: [{",
				"hostNetwork: true\n  containers: [{ports: [{containerPort: 81}], "}, reason: "NodePorts"},
		{name: "no host port", pod: ports("{containerPort: 81}")},

		{name: "label of another system", pod: [2]string{"uid: pod", "uid: pod, labels: {kubernetes.io/os: windows}"},
			reason: "PodOSSelectorNodeLabelDoesNotMatch"},
		{name: "another system", pod: [2]string{"nodeName: here", "os: {name: windows}"}, reason: "PodOSNotSupported",
			message: "spec.os.name"},
		{name: "groups", pod: [2]string{"nodeName: here", "securityContext: {supplementalGroupsPolicy: Strict}"},
			reason: "SupplementalGroupsPolicyNotSupported", message: "spec.securityContext.supplementalGroupsPolicy"},
		{name: "groups of a pod that runs", admitted: true,
			pod: [2]string{"nodeName: here", "securityContext: {supplementalGroupsPolicy: Strict}"}},
		{name: "groups on a node that can",
			pod:  [2]string{"nodeName: here", "securityContext: {supplementalGroupsPolicy: Strict}"},
			node: [2]string{"status:", "status:\n  features: {supplementalGroupsPolicy: true}"}},

		{name: "safe sysctl", pod: sysctls("{name: net.ipv4.tcp_syncookies, value: '1'}")},
		{name: "unsafe sysctl", pod: sysctls("{name: kernel.msgmax, value: '1'}"), reason: "SysctlForbidden",
			message: `forbidden sysctl: "kernel.msgmax" not allowlisted`},
		{name: "unsafe sysctl of a pod that runs", pod: sysctls("{name: kernel.msgmax, value: '1'}"), admitted: true,
			reason: "SysctlForbidden"},
		{name: "unsafe sysctl after a safe one",
			pod:    sysctls("{name: net.ipv4.tcp_syncookies, value: '1'}, {name: net/core/somaxconn, value: '1'}"),
			reason: "SysctlForbidden", message: "net.core.somaxconn"},
		{name: "unsafe sysctl that is allowed",
			pod: sysctls("{name: kernel.sem, value: '1'}, {name: net/ipv4/conf/eth0.1/mtu, value: '1'}")},
		{name: "sysctl of the node",
			pod: [2]string{"nodeName: here",
				"hostNetwork: true\n  securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}"},
			reason: "SysctlForbidden", message: "not allowed with host Net enabled"},

		{name: "taint", node: taint("NoExecute"), reason: "TaintToleration", message: "k=v:NoExecute"},
		{name: "taint of the scheduler", node: taint("NoSchedule")},
		{name: "taint on a pod that runs", node: taint("NoExecute"), admitted: true},
		{name: "taint that is tolerated", node: taint("NoExecute"),
			pod: [2]string{"nodeName: here", "tolerations: [{key: k, operator: Exists}]"}},
		{name: "taint on a static pod", node: taint("NoExecute"), pod: static},

		{name: "volume type", pod: [2]string{"nodeName: here", "volumes: [{name: v, nfs: {server: s, path: /}}]"},
			reason: "UnsupportedField", message: "spec.volumes[0].nfs"},
		{name: "volume of a static pod",
			pod: [2]string{"uid: pod}\nspec:",
				"uid: pod, annotations: {kubernetes.io/config.source: file}}\nspec:\n  volumes: [{name: v, " +
					"iscsi: {iqn: i}}]"}, reason: "UnsupportedField", message: "spec.volumes[0].iscsi"},
		{name: "user namespace", pod: [2]string{"nodeName: here", "hostUsers: false\n  hostIPC: true"},
			reason: "UnsupportedField", message: "spec.hostUsers"},

		{name: "unsupported field of a pod that runs", admitted: true,
			pod: [2]string{"nodeName: here", "hostUsers: false\n  hostIPC: true"}},
		{name: "ephemeral container",
			pod: [2]string{"nodeName: here",
				"ephemeralContainers: [{name: debugger, image: x, imagePullPolicy: Never, " +
					"terminationMessagePolicy: File}]"}},

		{name: "disk pressure on a pod that runs", node: pressure("DiskPressure"), admitted: true},
		{name: "disk pressure", node: pressure("DiskPressure"), reason: "Evicted", message: "[DiskPressure]"},
		{name: "disk pressure on a static pod", node: pressure("DiskPressure"), pod: static},
		{name: "disk pressure on a critical pod", node: pressure("DiskPressure"),
			pod: [2]string{"nodeName: here", "priority: 2000000000"}},
		{name: "disk pressure on a pod of high priority", node: pressure("DiskPressure"),
			pod: [2]string{"nodeName: here", "priority: 1999999999"}, reason: "Evicted"},
		{name: "memory pressure on a pod that asked for memory", node: pressure("MemoryPressure")},
		{name: "memory pressure", node: pressure("MemoryPressure"), pod: [2]string{resources, "{}"}, reason: "Evicted",
			message: "[MemoryPressure]"},
		{name: "memory pressure that is tolerated", node: pressure("MemoryPressure"),
			pod: [2]string{"nodeName: here\n  containers: [{name: c, image: image, resources: {requests: " + resources +
				"}}]",
				"tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists}]\n  containers: " +
					"[{name: c, image: image}]"}},
		{name: "no room for a static pod", node: [2]string{`pods: "3"`, `pods: "1"`}, pod: static, reason: "OutOfpods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input{
				Node:    read[v1.Node](t, replace(t, theNode, test.node)),
				Pod:     read[v1.Pod](t, replace(t, thePod, test.pod)),
				Running: []*v1.Pod{read[v1.Pod](t, theOther)}, Admitted: test.admitted,
				AllowedSysctls: []string{"kernel.sem", "net.ipv4.conf.*"},
			}
			before := in.Pod.DeepCopy()
			got := check(in)
			testutil.Assert(t, got == nil && test.reason == "" ||
				got != nil && got.Reason == test.reason && strings.Contains(got.Message, test.message),
				"rejected: %v, want %q with %q", got, test.reason, test.message)
			testutil.Assert(t, before.String() == in.Pod.String(), "the pod was changed")
		})
	}
}

var static = [2]string{"uid: pod", "uid: pod, annotations: {kubernetes.io/config.source: file}"}

func ports(list string) [2]string {
	return [2]string{"image: image,", "image: image, ports: [" + list + "],"}
}

func sysctls(list string) [2]string {
	return [2]string{"nodeName: here", "securityContext: {sysctls: [" + list + "]}"}
}

func affinity(expression string) string {
	return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
		"[{matchExpressions: [" + expression + "]}]}}}"
}

func taint(effect string) [2]string {
	return [2]string{"status:", "spec: {taints: [{key: k, value: v, effect: " + effect + "}]}\nstatus:"}
}

func pressure(kind string) [2]string {
	return [2]string{"{type: " + kind + `, status: "False"}`, "{type: " + kind + `, status: "True"}`}
}

func replace(t *testing.T, text string, change [2]string) string {
	t.Helper()
	if change[0] == "" {
		return text
	}
	changed := strings.Replace(text, change[0], change[1], 1)
	testutil.Require(t, changed != text, "%q is not in it", change[0])
	return changed
}

// TestOthers: the pod itself and ended pods use no resources.
func TestOthers(t *testing.T) {
	in := input{Node: read[v1.Node](t, strings.Replace(theNode, `pods: "3"`, `pods: "1"`, 1)),
		Pod: read[v1.Pod](t, thePod)}
	ended := read[v1.Pod](t, theOther)
	ended.Status.Phase = v1.PodFailed
	in.Running = []*v1.Pod{in.Pod, ended}
	testutil.Equal(t, check(in), nil, "rejected")
}

func TestNoNode(t *testing.T) {
	got := check(input{Pod: read[v1.Pod](t, thePod)})
	testutil.Assert(t, got != nil && got.Reason == reasonInvalidNodeInfo, "%v, want %s", got, reasonInvalidNodeInfo)
}

// TestExtendedResources: an extended resource counts only if the node has it.
func TestExtendedResources(t *testing.T) {
	for name, want := range map[string]string{"example.com/card": "OutOfexample.com/card", "example.com/licence": ""} {
		in := input{Node: read[v1.Node](t, theNode),
			Pod: read[v1.Pod](t, strings.Replace(thePod, "cpu: 500m", name+": 2", 1))}
		in.Supported = func(*v1.Pod) error { return nil }
		reason := ""
		if got := check(in); got != nil {
			reason = got.Reason
		}
		testutil.Assert(t, reason == want, "%s: %q, want %q", name, reason, want)
	}
}

func TestSupported(t *testing.T) {
	in := input{Node: read[v1.Node](t, theNode), Pod: read[v1.Pod](t, thePod), Supported: func(pod *v1.Pod) error {
		if pod.Spec.RestartPolicy != v1.RestartPolicyAlways {
			return errors.New("defaults are missing")
		}
		return errors.New("spec.field: no")
	}}
	got := check(in)
	testutil.Assert(t, got != nil && got.Reason == ReasonUnsupported && got.Message == "spec.field: no", "%v", got)
}

// serverPod is a controller's pod with the API server's defaults.
const serverPod = `
metadata:
  name: web-6d4cf56db6-abcde
  generateName: web-6d4cf56db6-
  namespace: default
  uid: 4a1a5d2c-7a0b-4b8e-9a57-0a4b6f2f5a11
  labels: {app: web, pod-template-hash: 6d4cf56db6}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-6d4cf56db6, uid: r, controller: true, blockOwnerDeletion: true}]
spec:
  nodeName: here
  volumes:
  - name: kube-api-access-x
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {expirationSeconds: 3607, path: token}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
  containers:
  - name: c
    image: image
    imagePullPolicy: Always
    resources: {}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts: [{name: kube-api-access-x, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
  restartPolicy: Always
  terminationGracePeriodSeconds: 30
  dnsPolicy: ClusterFirst
  serviceAccountName: default
  serviceAccount: default
  securityContext: {}
  schedulerName: default-scheduler
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  priority: 0
  enableServiceLinks: true
  preemptionPolicy: PreemptLowerPriority
status: {phase: Pending, qosClass: BestEffort, conditions: [{type: PodScheduled, status: "True"}]}
`

// TestServerPod: a pod of a cluster is admitted, even before the node is ready.
func TestServerPod(t *testing.T) {
	node := read[v1.Node](t, theNode)
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute})
	}
	got := check(input{Node: node, Pod: read[v1.Pod](t, serverPod)})
	testutil.Assert(t, got == nil, "%v", got)
}
