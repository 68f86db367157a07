package play

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
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

// readText reads a text as the standard input, with the other settings of in.
func readText(t *testing.T, text string, in Input) (*Set, error) {
	in.Files, in.In = append(in.Files, "-"), strings.NewReader(text)
	return Read(t.Context(), in)
}

// TestRead: a deployment becomes pods. The first pod of a service gets the service's ports of the machine.
func TestRead(t *testing.T) {
	set, err := readText(t, deployment+
		service("NodePort", "selector: {app: web}, ports: [{port: 80, targetPort: http, nodePort: 30080}]")+
		"---\n# nothing\n---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, "+
		"metadata: {name: m}}]\n", Input{})
	testutil.Must(t, err)
	testutil.Assert(t, len(set.pods) == 2 && len(set.objects.ConfigMaps) == 1 && set.pods[0].Name == "web-1" &&
		set.pods[1].Name == "web-2" && set.pods[0].Spec.Hostname == "web-1", "pods %v", set.pods)
	first, second := set.pods[0].Spec.Containers[0].Ports, set.pods[1].Spec.Containers[0].Ports
	testutil.Assert(t, len(first) == 1 && first[0].HostPort == 30080 && second[0].HostPort == 0,
		"ports %v and %v", first, second)
	notes := strings.Join(set.notes, "\n")
	testutil.Assert(t, strings.Contains(notes, "port 30080 of this machine leads to web-1") &&
		strings.Contains(notes, "the other 1"), "notes %s", notes)
}

// TestServicePorts: a service's node port leads to a container port of the service's protocol. A mapping that the pod
// has already is not repeated.
func TestServicePorts(t *testing.T) {
	const ports = "[{name: http, containerPort: 8080}]}]"
	for _, test := range []struct{ pod, service, want string }{
		{"[{containerPort: 8080, hostPort: 30080}]}]", "{port: 8080, nodePort: 30080}", "c :30080:8080/TCP"},
		{"[{containerPort: 8080, hostPort: 7000}]}]", "{port: 8080, nodePort: 30080}",
			"c :7000:8080/TCP, c :30080:8080/TCP"},
		{"[{containerPort: 8080, hostIP: 127.0.0.1, hostPort: 30080}]}]", "{port: 8080, nodePort: 30080}",
			"c 127.0.0.1:30080:8080/TCP, c :30080:8080/TCP"},
		{"[{containerPort: 53}]}, {name: d, image: i, ports: [{containerPort: 53, protocol: UDP}]}]",
			"{port: 53, protocol: UDP, nodePort: 30053}", "d :30053:53/UDP"},
		{ports, "{port: 53, protocol: UDP, nodePort: 30053}", "c :30053:53/UDP"},
	} {
		text := strings.Replace(deployment, ports, test.pod, 1)
		set, err := readText(t, text+service("NodePort", "selector: {app: web}, ports: ["+test.service+"]"), Input{})
		testutil.Must(t, err)
		var got []string
		for _, c := range set.pods[0].Spec.Containers {
			for _, port := range c.Ports {
				if port.HostPort != 0 {
					got = append(got, fmt.Sprintf("%s %s:%d:%d/%s", c.Name, port.HostIP, port.HostPort,
						port.ContainerPort, port.Protocol))
				}
			}
		}
		testutil.Equal(t, strings.Join(got, ", "), test.want, "ports of %s", test.pod)
	}
	udp := service("ClusterIP", "selector: {app: web}, ports: [{port: 1, protocol: UDP, targetPort: http}]")
	_, err := readText(t, deployment+udp, Input{})
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), `no UDP port of pod web-1 has the name "http"`),
		"a TCP port of a UDP service: %v", err)
}

// TestReadClaims: ReadClaims finds each claim once, whether the files have it or only name it.
func TestReadClaims(t *testing.T) {
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: own}\n---\n"
	pod := testutil.PodYAML("pod", `
  volumes:
  - {name: a, persistentVolumeClaim: {claimName: own}}
  - {name: b, persistentVolumeClaim: {claimName: named}}
  - {name: c, emptyDir: {}}
  containers: [{name: c, image: i}]
`)
	replicas := "---" + strings.Replace(deployment, "spec: {containers",
		"spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: shared}}], containers", 1)
	replicas = strings.Replace(replicas, "metadata: {name: web}", "metadata: {name: web, namespace: shop}", 1)
	claims, err := ReadClaims(t.Context(), Input{Files: []string{"-"}, In: strings.NewReader(claim + pod + replicas)})
	testutil.Must(t, err)
	testutil.Equal(t, fmt.Sprint(claims), "[default/own default/named shop/shared]", "claims")
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

// TestReadWorkloads: a job becomes all of its pods at once, and a daemon set becomes one pod.
func TestReadWorkloads(t *testing.T) {
	daemonSet := strings.NewReplacer("kind: Deployment", "kind: DaemonSet", "  replicas: 2\n", "").Replace(deployment)
	set, err := readText(t, job+"---"+daemonSet, Input{})
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
		pod + "---\n" + pod: "two pods have this name",
		strings.Replace(pod, "name: p,", "name: p, uid: u,", 1) + "---\n" +
			strings.Replace(pod, "name: p,", "name: q, uid: u,", 1): "pod q: metadata.uid: another pod has u, too",
		"{apiVersion: v1, kind: Pod, metadata: {name: a}}\n{kind: Pod}\n": "document 1: another document",
		strings.Replace(pod, "{name: c, image: i}", "", 1) +
			service("ClusterIP", "selector: {app: web}, ports: [{port: 1}]"): "spec.containers",
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
		_, err := readText(t, text, Input{})
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%s\n%v, want %q", text, err, want)
	}
}

// published returns the published ports of all pods, as POD IP:HOSTPORT:CONTAINERPORT/PROTOCOL.
func published(set *Set) (ports []string) {
	for pod, port := range set.ports() {
		if port.HostPort != 0 {
			ports = append(ports,
				fmt.Sprintf("%s %s:%d:%d/%s", pod.Name, port.HostIP, port.HostPort, port.ContainerPort, port.Protocol))
		}
	}
	return ports
}

// TestPublish: a published port leads to the first container with the container port.
func TestPublish(t *testing.T) {
	for _, test := range []struct {
		publish string
		all     bool
		want    string
	}{
		{publish: "80:8080", want: "web-1 :80:8080/TCP"},
		{publish: "8080", want: "web-1 :8080:8080/TCP"},
		{publish: "127.0.0.1:80:8080/tcp", want: "web-1 127.0.0.1:80:8080/TCP"},
		{publish: "[::1]:80:8080", want: "web-1 ::1:80:8080/TCP"},
		{publish: "53:53/udp", want: "web-1 :53:53/UDP"},
		{publish: "81-82:8080-8081", want: "web-1 :81:8080/TCP, web-1 :82:8081/TCP"},
		{publish: "80:8080 81:8080", want: "web-1 :80:8080/TCP, web-1 :81:8080/TCP"},
		{publish: "90:9 91:9", want: "web-1 :90:9/TCP, web-1 :91:9/TCP"},
		{all: true, want: "web-1 :8080:8080/TCP"},
		{publish: "80:8080", all: true, want: "web-1 :80:8080/TCP, web-2 :8080:8080/TCP"},
	} {
		set, err := readText(t, deployment, Input{Publish: strings.Fields(test.publish), PublishAll: test.all})
		testutil.Must(t, err)
		testutil.Equal(t, strings.Join(published(set), ", "), test.want, "published %s", test.publish)
	}
	for _, bad := range []string{"", "x", "80:", "80-90:8080", "1.2.3:80:8080", "80:8080/icmp", "70000", "0", "0:80",
		"80:0"} {
		_, err := readText(t, deployment, Input{Publish: []string{bad}})
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "--publish %q: %v", bad, err)
	}
}

// TestAdapt: all pods get the network and the annotations of the command line. Each pod has its own map of annotations.
func TestAdapt(t *testing.T) {
	set, err := readText(t, deployment, Input{Network: "host", Annotations: map[string]string{"a": "b"}})
	testutil.Must(t, err)
	for _, pod := range set.pods {
		testutil.Assert(t, pod.Spec.HostNetwork && pod.Annotations["a"] == "b", "%s: %+v", pod.Name, pod)
	}
	set.pods[0].Annotations["a"] = "c"
	testutil.Equal(t, set.pods[1].Annotations["a"], "b", "annotation of the other pod")
	_, err = readText(t, deployment, Input{Network: "mine"})
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "bridge or host"), "%v", err)
}

// TestReadURL: Read takes files from a web server. A config map of --configmap replaces one with the same name.
func TestReadURL(t *testing.T) {
	configMap := func(value string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {key: " + value + "}\n"
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pods":
			fmt.Fprint(w, deployment+configMap("old"))
		case "/map":
			fmt.Fprint(w, configMap("new"))
		case "/large":
			fmt.Fprint(w, strings.Repeat("#\n", maxDownload))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	pods, configMaps := []string{server.URL + "/pods"}, []string{server.URL + "/map"}
	set, err := Read(t.Context(), Input{Files: pods, ConfigMaps: configMaps})
	testutil.Must(t, err)
	maps := set.objects.ConfigMaps
	testutil.Assert(t, len(set.pods) == 2 && len(maps) == 1 && maps[0].Data["key"] == "new", "%+v", maps)

	withPassword := strings.Replace(server.URL, "http://", "http://me:hidden@", 1)
	for file, want := range map[string]string{
		withPassword + "/none": "404 Not Found", withPassword + "/large": "more than 10 MiB",
		"http://me:hidden@127.0.0.1:1/": "connection refused",
	} {
		_, err := Read(t.Context(), Input{Files: []string{file}})
		testutil.Require(t, err != nil, "%s is read", file)
		message := err.Error()
		testutil.Assert(t, strings.Contains(message, want) && !strings.Contains(message, "hidden"),
			"%s: %v, want %q", file, err, want)
	}
	_, err = Read(t.Context(), Input{Files: pods, ConfigMaps: pods})
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "a pod of --configmap: %v", err)
}

func FuzzRead(f *testing.F) {
	f.Add(deployment + service("LoadBalancer", "selector: {app: web}, ports: [{port: 80}]"))
	f.Add("---\n{}\n---\nkind: List")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := readText(t, text, Input{})
		testutil.Assert(t, err != nil || len(set.pods) > 0, "nothing was read, without an error")
	})
}

// TestHostsLines checks that a service's name leads to its ready pods only, and that each pod's name leads to the pod.
func TestHostsLines(t *testing.T) {
	pod := func(ip string, ready v1.ConditionStatus) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod-n", Namespace: "default", Labels: map[string]string{"app": "web"}},
			Spec:       v1.PodSpec{NodeName: "n"},
			Status:     v1.PodStatus{PodIP: ip, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}},
		}
	}
	services := []*v1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}}
	got := hostsLines(services,
		[]*v1.Pod{pod("10.0.0.1", v1.ConditionFalse), pod("10.0.0.2", v1.ConditionTrue), pod("", v1.ConditionTrue)})
	want := []string{"10.0.0.2\tweb\tweb.default\tweb.default.svc", "10.0.0.1\tpod", "10.0.0.2\tpod"}
	testutil.Assert(t, slices.Equal(got, want), "%q, want %q", got, want)
}

// TestLines: lines of several names stay whole. Each line begins with its name, in the colour of the name.
func TestLines(t *testing.T) {
	var out strings.Builder
	terminal := newTerminal(&out, true, nil)
	a, b := terminal.lines("a"), terminal.lines("b")
	for _, text := range []string{"one\ntw", "o\n", "rest"} {
		_, err := a.Write([]byte(text))
		testutil.Must(t, err)
	}
	_, err := b.Write([]byte("x\n"))
	testutil.Must(t, err)
	a.end()
	const want = "\x1b[36ma |\x1b[0m one\n\x1b[36ma |\x1b[0m two\n\x1b[33mb |\x1b[0m x\n\x1b[36ma |\x1b[0m rest\n"
	testutil.Assert(t, out.String() == want, "%q, want %q", out.String(), want)
}

// TestPublishReplaces: the first mapping replaces the host port in the files. The same mapping twice is refused.
func TestPublishReplaces(t *testing.T) {
	text := strings.Replace(deployment, "replicas: 2", "replicas: 1", 1)
	text = strings.Replace(text, "containerPort: 8080", "containerPort: 8080, hostPort: 7000", 1)
	set, err := readText(t, text, Input{Publish: []string{"80:8080", "81:8080"}})
	testutil.Must(t, err)
	testutil.Equal(t, strings.Join(published(set), ", "), "web-1 :80:8080/TCP, web-1 :81:8080/TCP", "published")
	_, err = readText(t, text, Input{Publish: []string{"80:8080", "80:8080"}})
	testutil.Assert(t, err != nil, "the same mapping twice is published")
}
