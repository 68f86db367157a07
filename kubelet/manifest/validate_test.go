package manifest

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// full uses many supported fields.
const full = `
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: ns, labels: {app: x, empty: ""}, annotations: {example.org/note: anything at all}}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 0
  hostname: host
  resources: {limits: {cpu: 2, memory: 2Gi}, requests: {cpu: 600m}}
  dnsPolicy: None
  dnsConfig: {nameservers: [192.0.2.1], options: [{name: ndots, value: "2"}]}
  hostAliases: [{ip: 192.0.2.2, hostnames: [other]}]
  securityContext:
    fsGroup: 5
    runAsUser: 4
    supplementalGroups: [7]
    seccompProfile: {type: RuntimeDefault}
    seLinuxChangePolicy: Recursive
    sysctls: [{name: net.core.somaxconn, value: "9"}]
  schedulingGroup: {podGroupName: group}
  evictionResponders: [{name: example.org/responder, priority: 10000}]
  tolerations: [{operator: Exists}]
  nodeSelector: {a: b}
  volumes:
  - {name: a, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: b, hostPath: {path: /tmp, type: Directory}}
  - {name: c, configMap: {name: m, items: [{key: k, path: p, mode: 256}]}}
  - {name: d, secret: {secretName: s, optional: true}}
  - {name: e, projected: {sources: [{serviceAccountToken: {path: token, audience: a, expirationSeconds: 3607}}]}}
  - {name: f, image: {reference: models:1}}
  initContainers:
  - {name: i, image: x, env: [{name: A, value: b}]}
  - {name: s, image: x, restartPolicy: Always, startupProbe: {exec: {command: ["true"]}}}
  containers:
  - name: c
    image: x
    command: [a, b]
    args: [c]
    workingDir: /
    tty: true
    envFrom: [{configMapRef: {name: m}, prefix: P_}]
    ports: [{name: web, containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]
    resources: {limits: {cpu: 1, memory: 1Gi, example.com/card: 2}, requests: {cpu: 500m, memory: 1Gi}}
    volumeMounts:
    - {name: a, mountPath: /a, subPath: x/y, readOnly: true}
    - {name: b, mountPath: /b, mountPropagation: HostToContainer}
    livenessProbe:
      httpGet: {port: web, httpHeaders: [{name: H, value: v}], protocol: HTTP1}
      terminationGracePeriodSeconds: 3
    readinessProbe: {grpc: {port: 9, service: s}, successThreshold: 2}
    lifecycle: {postStart: {exec: {command: [x]}}, preStop: {sleep: {seconds: 1}}}
    securityContext: {privileged: false, capabilities: {add: [NET_ADMIN]}, readOnlyRootFilesystem: true}
`

func validated(t *testing.T, text string) error {
	t.Helper()
	pod := parsePod(t, text)
	SetDefaults(pod)
	return Validate(pod)
}

func TestValidateGood(t *testing.T) {
	for name, text := range map[string]string{"minimal": minimal, "full": full} {
		err := validated(t, text)
		testutil.Assert(t, err == nil, "%s: %v", name, err)
	}
}

// TestValidateHostPorts: two app containers may not have the same host port. An init container may share its port with
// any other container.
func TestValidateHostPorts(t *testing.T) {
	const port, again = "{containerPort: 80, hostPort: 8080}", ", {containerPort: 81, hostPort: 8080}"
	for _, c := range []struct{ init, sidecar, app, want string }{
		{},
		{init: again, want: "spec.initContainers[0].ports[1].hostPort"},
		{sidecar: again, want: "spec.initContainers[2].ports[1].hostPort"},
		{app: again, want: "spec.containers[0].ports[1].hostPort"},
		{app: "]}, {name: d, image: x, ports: [" + port, want: "spec.containers[1].ports[0].hostPort"},
	} {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec:\n  initContainers:\n" +
			"  - {name: i, image: x, ports: [" + port + c.init + "]}\n" +
			"  - {name: j, image: x, ports: [" + port + "]}\n" +
			"  - {name: s, image: x, restartPolicy: Always, ports: [" + port + c.sidecar + "]}\n" +
			"  containers: [{name: c, image: x, ports: [" + port + c.app + "]}]\n"
		err := validated(t, text)
		if c.want == "" {
			testutil.Check(t, err)
			continue
		}
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), c.want), "%+v: %v", c, err)
	}
}

// TestValidateBad changes one field of the full pod in each case.
func TestValidateBad(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{"name: pod,", "name: Pod_1,", "metadata.name"},
		{"namespace: ns", "namespace: n.s", "metadata.namespace"},
		{"{app: x", "{app: x y", "metadata.labels[app]"},
		{"OnFailure", "Sometimes", "spec.restartPolicy"},
		{"nameservers: [192.0.2.1]", "nameservers: []", "spec.dnsConfig.nameservers"},
		{"hostname: host", "hostname: a.b", "spec.hostname"},
		{"hostname: host", "hostUsers: false\n  hostPID: true", "spec.hostUsers"},
		{"hostname: host", "ephemeralContainers: [{name: e, image: x, targetContainerName: none}]",
			"spec.ephemeralContainers[0].targetContainerName"},
		{"hostname: host", "hostUsers: false\n  hostNetwork: true", "spec.hostUsers"},
		{"hostname: host", "os: {name: windows}", "spec.os.name"},
		{"{cpu: 600m}", "{cpu: 400m}", "spec.resources.requests[cpu]"},
		{"{cpu: 600m}", "{cpu: 3}", "spec.resources.requests[cpu]"},
		{"{cpu: 2, memory: 2Gi}", "{cpu: 2, memory: 512Mi}", "spec.resources.limits[memory]"},
		{"{cpu: 2, memory: 2Gi}", "{ephemeral-storage: 2Gi}", "spec.resources.limits[ephemeral-storage]"},
		{"{cpu: 600m}", "{cpu: 600m}, claims: [{name: a}]", "spec.resources.claims"},
		{"example.com/card: 2", "example.com/card: 1500m", "spec.containers[0].resources.limits[example.com/card]"},
		{"example.com/card: 2}, requests: {", "}, requests: {example.com/card: 2, ",
			"spec.containers[0].resources.requests[example.com/card]"},
		{"example.com/card: 2}, requests: {", "example.com/card: 2}, requests: {example.com/card: 1, ",
			"spec.containers[0].resources.requests[example.com/card]"},
		{"example.com/card: 2", "card: 2", "spec.containers[0].resources.limits[card]"},
		{"emptyDir: {medium: Memory, sizeLimit: 1Mi}", "nfs: {server: s, path: /}", "spec.volumes[0].nfs"},
		{"emptyDir: {medium: Memory, sizeLimit: 1Mi}", "persistentVolumeClaim: {claimName: c}",
			"spec.volumes[0].persistentVolumeClaim"},
		{"emptyDir: {medium: Memory, sizeLimit: 1Mi}", "emptyDir: {medium: Fast}", "spec.volumes[0].emptyDir.medium"},
		{"emptyDir: {medium: Memory, sizeLimit: 1Mi}", "emptyDir: {}, secret: {secretName: s}", "spec.volumes[0]"},
		{"path: /tmp,", "path: /tmp/../etc,", "spec.volumes[1].hostPath.path"},
		{"path: /tmp,", "path: ./tmp,", "spec.volumes[1].hostPath.path"},
		{"type: Directory", "type: Folder", "spec.volumes[1].hostPath.type"},
		{"secretName: s,", "", "spec.volumes[3].secret.secretName"},
		{"reference: models:1", "pullPolicy: Always", "spec.volumes[5].image.reference"},
		{"reference: models:1", "reference: models:1, pullPolicy: Sometimes", "spec.volumes[5].image.pullPolicy"},
		{"path: token,", "path: ../token,", "spec.volumes[4].projected.sources[0].serviceAccountToken.path"},
		{"path: token,", "", "spec.volumes[4].projected.sources[0].serviceAccountToken.path"},
		{"expirationSeconds: 3607", "expirationSeconds: 599",
			"spec.volumes[4].projected.sources[0].serviceAccountToken.expirationSeconds"},
		{"serviceAccountToken: {path", "clusterTrustBundle: {name: b, path: x}, serviceAccountToken: {path",
			"spec.volumes[4].projected.sources[0].clusterTrustBundle"},
		{"serviceAccountToken: {path", "podCertificate: {signerName: s}, serviceAccountToken: {path",
			"spec.volumes[4].projected.sources[0].podCertificate"},
		{"{example.org/note: anything at all}", "{kubernetes.io/config.source: file}",
			"spec.volumes[4].projected.sources[0].serviceAccountToken"},
		{"name: b, hostPath", "name: a, hostPath", "spec.volumes[1].name"},
		{"- name: c\n    image: x", "- name: c", "spec.containers[0].image"},
		{"- name: c\n", "- name: i\n", "spec.containers[0].name"},
		{"containerPort: 80,", "containerPort: 70000,", "spec.containers[0].ports[0].containerPort"},
		{"name: A, value: b", "name: A=, value: b", "spec.initContainers[0].env[0].name"},
		{"name: A, value: b", "name: A, valueFrom: {}", "spec.initContainers[0].env[0].valueFrom"},
		{"name: a, mountPath", "name: z, mountPath", "spec.containers[0].volumeMounts[0].name"},
		{"mountPath: /b,", "mountPath: /a,", "spec.containers[0].volumeMounts[1].mountPath"},
		{"subPath: x/y", "subPath: ../y", "spec.containers[0].volumeMounts[0].subPath"},
		{"requests: {cpu: 500m", "requests: {cpu: 2", "spec.containers[0].resources.requests[cpu]"},
		{"httpGet: {port: web,", "httpGet: {port: no such,", "spec.containers[0].livenessProbe.httpGet.port"},
		{"terminationGracePeriodSeconds: 3", "successThreshold: 2",
			"spec.containers[0].livenessProbe.successThreshold"},
		{"grpc: {port: 9, service: s}", "grpc: {port: 9}, tcpSocket: {port: 9}", "spec.containers[0].readinessProbe"},
		{"preStop: {sleep: {seconds: 1}}", "preStop: {tcpSocket: {port: 1}}",
			"spec.containers[0].lifecycle.preStop.tcpSocket"},
		{"sizeLimit: 1Mi", "mode: 448", "spec.volumes[0].emptyDir.mode"},
		{"mode: 256}", "mode: 256, user: 5}", "spec.volumes[2].configMap.items[0].user"},
		{"secretName: s,", "secretName: s, defaultUser: 5,", "spec.volumes[3].secret.defaultUser"},
		{"audience: a,", "audience: a, user: 5,", "spec.volumes[4].projected.sources[0].serviceAccountToken.user"},
		{"serviceAccountToken: {path", "downwardAPI: {items: [{path: p, user: 5}]}, serviceAccountToken: {path",
			"spec.volumes[4].projected.sources[0].downwardAPI.items[0].user"},
		{"protocol: HTTP1", "protocol: HTTP2", "spec.containers[0].livenessProbe.httpGet.protocol"},
		{"postStart: {exec: {command: [x]}}", "postStart: {httpGet: {port: 1, protocol: HTTP2}}",
			"spec.containers[0].lifecycle.postStart.httpGet.protocol"},
		{"grpc: {port: 9, service: s}", "grpc: {port: 9, mode: TLS}", "spec.containers[0].readinessProbe.grpc.mode"},
		{"restartPolicy: Always,", "restartPolicy: Maybe,", "spec.initContainers[1].restartPolicy"},
		{"{name: i, image: x,", "{name: i, image: x, livenessProbe: {exec: {command: [x]}},",
			"spec.initContainers[0].livenessProbe"},
		{"privileged: false", "privileged: true, allowPrivilegeEscalation: false",
			"spec.containers[0].securityContext.allowPrivilegeEscalation"},
		{"    tty: true", "    volumeDevices: [{name: a, devicePath: /dev/x}]", "spec.containers[0].volumeDevices"},
		{"    tty: true", "    restartPolicy: Maybe", "spec.containers[0].restartPolicy"},
		{"    tty: true", "    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]",
			"spec.containers[0].restartPolicy"},
		{"    tty: true",
			"    restartPolicy: Never\n    restartPolicyRules: [{action: RestartNode, exitCodes: {operator: In}}]",
			"spec.containers[0].restartPolicyRules[0].action"},
		{"    tty: true", "    restartPolicy: Never\n    restartPolicyRules: [{action: Restart}]",
			"spec.containers[0].restartPolicyRules[0].exitCodes"},
	}
	for _, test := range tests {
		t.Run(test.want+" "+test.new, func(t *testing.T) {
			text := strings.Replace(full, test.old, test.new, 1)
			testutil.Require(t, text != full, "%q is not in the pod", test.old)
			err := validated(t, text)
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), test.want+":") &&
				errdefs.IsInvalidArgument(err), "error %v, want an ErrInvalidArgument that names %s", err, test.want)
		})
	}
}

// TestValidateMistakes: the API server allows a port name that the container lacks, a negative grace period, and a
// mount path in two spellings. In a static pod each is an error.
func TestValidateMistakes(t *testing.T) {
	pod := parsePod(t, `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  terminationGracePeriodSeconds: -1
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    image: x
    volumeMounts: [{name: v, mountPath: /data}, {name: v, mountPath: /data/}]
    livenessProbe: {httpGet: {port: web}}
`)
	SetDefaults(pod)
	testutil.Must(t, Validate(pod))
	refuses := func(fields ...string) {
		t.Helper()
		err := Validate(pod)
		for _, name := range fields {
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), name+":"), "%s is not in %v", name, err)
		}
	}
	pod.Spec.Containers[0].LivenessProbe.HTTPGet.Port.StrVal = "no such port"
	refuses("spec.containers[0].livenessProbe.httpGet.port")
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, model.AnnotationConfigSource, model.SourceFile)
	refuses("spec.terminationGracePeriodSeconds", "spec.containers[0].volumeMounts[1].mountPath",
		"spec.containers[0].livenessProbe.httpGet.port")
}
