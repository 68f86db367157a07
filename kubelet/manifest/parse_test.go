package manifest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// minimal is the smallest pod, as YAML.
const minimal = `
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers: [{name: c, image: image}]
`

// flow is such a pod in YAML's flow style, which begins like JSON.
const flow = "{apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: {containers: [{name: c, image: image}]}}"

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		pods       int
		want       string // part of the error, or empty
	}{
		{"one", minimal, 1, ""},
		{"several", "# comment\n---" + minimal + "---\n# nothing here\n---" + minimal + "---\n", 2, ""},
		{"marker with a comment", "--- # first" + minimal, 1, ""},
		{"json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}`, 1, ""},
		{"list", `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, 2, ""},
		{"flow style", flow + "\n---\n" + flow + "\n--- # third\n" + flow, 3, ""},
		{"flow style, then bad", flow + "\n---\nkind: Nonsense\n", 1, "document 2"},
		{"two objects", flow + "\n" + flow, 0, "document 1: another document follows"},
		{"another after nothing", "null\n# comment\n" + flow, 0, "document 1: another document follows"},
		{"another with less indentation", " kind: Pod\n" + minimal, 0, "document 1: another document follows"},
		{"a tab follows", flow + "\n\tx: y", 0, "line 2: found character that cannot start any token"},
		{"comment after JSON", flow + "\n# the end\n", 1, ""},
		{"JSON with tabs", "\ufeff{\r\n\t\"apiVersion\": \"v1\",\r\n\t\"kind\": \"Pod\"\r\n}\r\n", 1, ""},
		{"document ends", minimal + "...\n# comment\n---" + minimal + "... # the end\n" + flow, 3, ""},
		{"empty", "", 0, "no document"},
		{"comments alone", "# a\n---\n# b\n", 0, "no document"},
		{"unknown field", strings.Replace(minimal, "image:", "imagge: x, image:", 1), 0,
			`document 1: unknown field "spec.containers[0].imagge"`},
		{"wrong case", strings.Replace(minimal, "image:", "Image:", 1), 0, `unknown field "spec.containers[0].Image"`},
		{"twice", strings.Replace(minimal, "image: image", "image: a, image: b", 1), 0, "already"},
		{"wrong type", strings.Replace(minimal, "containers: [{name: c, image: image}]", "containers: 7", 1), 0,
			"containers"},
		{"other kind", "apiVersion: v1\nkind: Service\n", 0, "kind"},
		{"other version", "apiVersion: apps/v1\nkind: Pod\n", 0, "apiVersion"},
		{"not yaml", "a: [", 0, "document 1"},
		{"good and bad", minimal + "---\nkind: Nonsense\n", 1, "document 2"},
		{"begins with a marker", "---\nkind: Nonsense\n", 0, "document 1"},
		{"comments first", "# a\n---\n# b\n---" + minimal + "---\nkind: Nonsense\n", 1, "document 2"},
		{"text", "hello", 0, "document 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			docs, err := Parse([]byte(test.text))
			testutil.Assert(t, len(docs.Pods) == test.pods, "%d pods, want %d", len(docs.Pods), test.pods)
			testutil.Assert(t, test.want == "" && err == nil ||
				test.want != "" && errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), test.want),
				"error %v, want an ErrInvalidArgument with %q", err, test.want)
		})
	}
}

func TestParseObjects(t *testing.T) {
	docs, err := Parse(
		[]byte(
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n---\napiVersion: v1\nkind: " +
				"Secret\nmetadata: {name: s}\nstringData: {a: b}\n"))
	testutil.Assert(t, err == nil && len(docs.ConfigMaps) == 1 && len(docs.Secrets) == 1 &&
		docs.ConfigMaps[0].Data["a"] == "b", "%+v, %v", docs, err)
}

func TestParseClaims(t *testing.T) {
	const volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: "
	const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: "
	docs, err := Parse([]byte(claim + "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, " +
		"storageClassName: fast, volumeName: v}\n---\n" + volume + "{capacity: {storage: 1Gi}, accessModes: " +
		"[ReadWriteOnce], local: {path: /mnt/disk}, persistentVolumeReclaimPolicy: Retain, nodeAffinity: {required: " +
		"{nodeSelectorTerms: []}}, claimRef: {name: c, namespace: default}}\n"))
	testutil.Assert(t, err == nil && len(docs.Claims) == 1 && len(docs.PersistentVolumes) == 1, "%+v, %v", docs, err)
	for text, want := range map[string]string{
		claim + "{volumeMode: Block}":                           "spec.volumeMode",
		claim + "{selector: {matchLabels: {a: b}}}":             "spec.selector",
		claim + "{dataSource: {kind: VolumeSnapshot, name: s}}": "spec.dataSource",
		volume + "{}": "spec.local",
		volume + "{local: {path: /a}, hostPath: {path: /b}}":                  "spec.local",
		volume + "{local: {path: a}}":                                         "spec.local.path",
		volume + "{hostPath: {path: /a/../b}}":                                "spec.hostPath.path",
		volume + "{nfs: {server: s, path: /}, local: {path: /a}}":             "spec.nfs",
		volume + "{local: {path: /a}, mountOptions: [noatime]}":               "spec.mountOptions",
		volume + "{local: {path: /a, fsType: ext4}}":                          "spec.local.fsType",
		volume + "{persistentVolumeReclaimPolicy: Delete, local: {path: /a}}": "spec.persistentVolumeReclaimPolicy",
	} {
		docs, err := Parse([]byte(text))
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want) && docs.Empty(), "%s: %v, want %s", text,
			err, want)
	}
}

// FuzzParse: the parser never panics, and Validate accepts or refuses its pods without a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("---\n---\n{}"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"PodList","items":[{}]}`))
	f.Add(
		[]byte(
			"apiVersion: v1\nkind: Pod\nspec: {containers: [{ports: [{containerPort: 1}], livenessProbe: " +
				"{httpGet: {port: x}}}]}"))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: {volumes: [{name: a, hostPath: {path: /}}], initContainers: [{}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, err := Parse(text)
		if err == nil && len(docs.Pods) == 0 && docs.Empty() &&
			!strings.Contains(string(text), "PodList") {
			t.Error("nothing found, and no error")
		}
		for _, pod := range docs.Pods {
			if Static(pod, Origin{Source: model.SourceFile, Location: "/m", NodeName: "node"}) != nil {
				continue
			}
			SetDefaults(pod)
			testutil.Assert(t, Validate(pod) != nil || len(pod.Spec.Containers) > 0,
				"a pod without containers is valid")
		}
	})
}

func parsePod(t *testing.T, text string) *v1.Pod {
	t.Helper()
	docs, err := Parse([]byte(text))
	testutil.Must(t, err)
	return docs.Pods[0]
}

func TestStatic(t *testing.T) {
	origin := Origin{Source: model.SourceFile, Location: "/manifests/a.yaml", NodeName: "Node-1", Seen: time.Unix(1, 0)}
	made := func(text string, o Origin) *v1.Pod {
		t.Helper()
		pod := parsePod(t, text)
		testutil.Must(t, Static(pod, o))
		return pod
	}
	first := made(minimal, origin)
	testutil.Assert(t, first.Name == "pod-node-1" && len(first.UID) == 32 && first.Spec.NodeName == "Node-1" &&
		model.IsStatic(first) && first.Annotations[model.AnnotationConfigHash] == string(first.UID), "made %+v", first)
	later := origin
	later.Seen = time.Unix(99, 0)
	again := made(minimal, later)
	testutil.Assert(t, again.UID == first.UID, "the same manifest read again is another pod")
	elsewhere := origin
	elsewhere.Location = "/manifests/b.yaml"
	for name, other := range map[string]*v1.Pod{
		"edited":    made(strings.Replace(minimal, "image: image", "image: other", 1), origin),
		"elsewhere": made(minimal, elsewhere),
	} {
		testutil.Assert(t, other.UID != first.UID, "%s: the same UID", name)
	}
	fixed := made(strings.Replace(minimal, "name: pod", "name: pod, uid: mine", 1), origin)
	testutil.Assert(t, fixed.UID == "mine", "UID %s", fixed.UID)
	claimed := made(
		strings.Replace(minimal, "name: pod", "name: pod, annotations: {kubernetes.io/config.mirror: x}", 1), origin)
	testutil.Assert(t, !model.IsMirror(claimed), "a manifest makes a mirror pod")
	err := Static(&v1.Pod{}, origin)
	testutil.Assert(t, err != nil, "a pod without a name is accepted")
}

func TestDefaults(t *testing.T) {
	pod := parsePod(t, `
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  hostNetwork: true
  volumes: [{name: m, configMap: {name: m}}, {name: h, hostPath: {path: /}}]
  containers:
  - name: c
    image: example.org:5000/image
    ports: [{containerPort: 80}]
    env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {limits: {cpu: 1}}
    livenessProbe: {httpGet: {port: 80}}
    lifecycle: {preStop: {httpGet: {port: 80}}}
  - {name: d, image: "image:1"}
  - {name: e, image: "image@sha256:0000000000000000000000000000000000000000000000000000000000000000"}
`)
	SetDefaults(pod)
	c := pod.Spec.Containers[0]
	for what, ok := range map[string]bool{
		"namespace":      pod.Namespace == "default",
		"restart policy": pod.Spec.RestartPolicy == v1.RestartPolicyAlways,
		"grace":          *pod.Spec.TerminationGracePeriodSeconds == 30,
		"dns":            pod.Spec.DNSPolicy == v1.DNSClusterFirst,
		"no tag":         c.ImagePullPolicy == v1.PullAlways,
		"tag":            pod.Spec.Containers[1].ImagePullPolicy == v1.PullIfNotPresent,
		"digest":         pod.Spec.Containers[2].ImagePullPolicy == v1.PullIfNotPresent,
		"protocol":       c.Ports[0].Protocol == v1.ProtocolTCP,
		"host port":      c.Ports[0].HostPort == 80,
		"requests":       c.Resources.Requests.Cpu().Value() == 1,
		"probe": c.LivenessProbe.PeriodSeconds == 10 && c.LivenessProbe.TimeoutSeconds == 1 &&
			c.LivenessProbe.FailureThreshold == 3,
		"probe path":        c.LivenessProbe.HTTPGet.Path == "/" && c.LivenessProbe.HTTPGet.Scheme == v1.URISchemeHTTP,
		"hook":              c.Lifecycle.PreStop.HTTPGet.Scheme == v1.URISchemeHTTP,
		"config map's mode": *pod.Spec.Volumes[0].ConfigMap.DefaultMode == 0o644,
		"host path's type":  *pod.Spec.Volumes[1].HostPath.Type == v1.HostPathUnset,
		"field's version":   c.Env[0].ValueFrom.FieldRef.APIVersion == "v1",
	} {
		testutil.Assert(t, ok, "%s: wrong", what)
	}
	before := pod.DeepCopy()
	SetDefaults(pod)
	a, _ := json.Marshal(before)
	b, _ := json.Marshal(pod)
	testutil.Assert(t, string(a) == string(b), "defaults set twice differ")
	testutil.Check(t, Validate(pod))
}
