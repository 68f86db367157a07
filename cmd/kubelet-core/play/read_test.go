package play

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}
`

func service(kind, spec string) string {
	return "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: " + kind + ", " + spec + "}\n"
}

// TestRead makes pods of deployments, and gives the first pod of a service its host ports.
func TestRead(t *testing.T) {
	set, err := Read([]string{"-"},
		strings.NewReader(deployment+
			service("NodePort", "selector: {app: web}, ports: [{port: 80, targetPort: http, nodePort: 30080}]")+
			"---\n# nothing\n---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, "+
			"metadata: {name: m}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(set.pods) != 2 || len(set.objects.ConfigMaps) != 1 || set.pods[0].Name != "web-1" ||
		set.pods[1].Name != "web-2" || set.pods[0].Spec.Hostname != "web-1" {
		t.Errorf("pods %v", set.pods)
	}
	first, second := set.pods[0].Spec.Containers[0].Ports, set.pods[1].Spec.Containers[0].Ports
	testutil.Assert(t, len(first) == 1 && first[0].HostPort == 30080 && second[0].HostPort == 0,
		"ports %v and %v", first, second)
	if notes := strings.Join(set.notes, "\n"); !strings.Contains(notes, "port 30080 of this machine leads to web-1") ||
		!strings.Contains(notes, "the other 1") {
		t.Errorf("notes %s", notes)
	}
}

const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  completions: 2
  parallelism: 2
  backoffLimit: 3
  activeDeadlineSeconds: 60
  template:
    spec: {restartPolicy: OnFailure, containers: [{name: c, image: i}]}
`

// TestReadWorkloads makes the pods of a job, at once, and the pod of a daemon set.
func TestReadWorkloads(t *testing.T) {
	daemonSet := strings.NewReplacer("kind: Deployment", "kind: DaemonSet", "  replicas: 2\n", "").Replace(deployment)
	set, err := Read([]string{"-"}, strings.NewReader(job+"---"+daemonSet))
	testutil.Must(t, err)
	var names []string
	for _, pod := range set.pods {
		names = append(names, pod.Name)
	}
	testutil.Equal(t, strings.Join(names, " "), "task-1 task-2 web-1", "pods")
	testutil.Equal(t, *set.pods[1].Spec.ActiveDeadlineSeconds, 60, "deadline of a pod")
	testutil.Assert(t, len(set.notes) == 1 && strings.Contains(set.notes[0], "backoffLimit"), "notes %q", set.notes)
}

// TestReadRefuses checks that errors name the document and the field.
func TestReadRefuses(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: web}}\nspec: {containers: [{name: " +
		"c, image: i}]}\n"
	for text, want := range map[string]string{
		"": "no Pod",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n": "no Pod",
		pod + "---\napiVersion: batch/v1\nkind: CronJob\n":       "document 2: apiVersion and kind",
		pod + "---\n" + pod: "two of that name",
		strings.Replace(pod, "image: i", "imagge: i", 1): "imagge",
		strings.Replace(pod, "image: i", "image: ''",
			1): "spec.containers[0].image",
		strings.Replace(deployment, "spec: {cont", "spec: {restartPolicy: Never, cont", 1):       "restartPolicy",
		pod + service("ExternalName", "externalName: x"):                                         "spec.selector",
		pod + service("ClusterIP", "selector: {app: other}, ports: [{port: 1}]"):                 "selects none",
		pod + service("ClusterIP", "selector: {app: web}, ports: [{port: 1, targetPort: http}]"): `"http"`,
		strings.Replace(job, "OnFailure", "Always", 1):                                           "restartPolicy",
		strings.Replace(job, "parallelism: 2", "parallelism: 1", 1):                              "spec.parallelism",
		strings.Replace(job, "backoffLimit: 3", "suspend: true", 1):                              "spec.suspend",
		strings.Replace(job, "backoffLimit: 3", "completionMode: Indexed", 1):                    "spec.completionMode",
		strings.Replace(job, "backoffLimit: 3", "podFailurePolicy: {rules: []}", 1):              "podFailurePolicy",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Node}]\n":                    "items[0]",
	} {
		_, err := Read([]string{"-"}, strings.NewReader(text))
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%s\n%v, want %q", text, err, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(deployment + service("LoadBalancer", "selector: {app: web}, ports: [{port: 80}]"))
	f.Add("---\n{}\n---\nkind: List")
	f.Fuzz(func(t *testing.T, text string) {
		if set, err := Read([]string{"-"}, strings.NewReader(text)); err == nil && len(set.pods) == 0 {
			t.Error("nothing was read, without an error")
		}
	})
}

// TestHostsLines has lines only for ready pods.
func TestHostsLines(t *testing.T) {
	pod := func(ip string, ready v1.ConditionStatus) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": "web"}},
			Status:     v1.PodStatus{PodIP: ip, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}},
		}
	}
	services := []*v1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}}
	got := hostsLines(services,
		[]*v1.Pod{pod("10.0.0.1", v1.ConditionFalse), pod("10.0.0.2", v1.ConditionTrue), pod("", v1.ConditionTrue)})
	want := "10.0.0.2\tweb\tweb.default\tweb.default.svc"
	testutil.Assert(t, len(got) == 1 && got[0] == want, "%q, want %q", got, want)
}

// TestLines keeps lines whole, each with its name in the name's colour.
func TestLines(t *testing.T) {
	var out strings.Builder
	terminal := newTerminal(&out, true)
	a, b := terminal.lines("a"), terminal.lines("b")
	for _, text := range []string{"one\ntw", "o\n", "rest"} {
		if _, err := a.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	a.end()
	const want = "\x1b[36ma |\x1b[0m one\n\x1b[36ma |\x1b[0m two\n\x1b[33mb |\x1b[0m x\n\x1b[36ma |\x1b[0m rest\n"
	testutil.Assert(t, out.String() == want, "%q, want %q", out.String(), want)
}
