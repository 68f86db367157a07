package translate

import (
	"maps"
	"slices"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// mergeImageLabels adds an image's labels, as the engine does at create.
func mergeImageLabels(config *container.Config, image map[string]string) map[string]string {
	out := maps.Clone(image)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, config.Labels)
	return out
}

// evilImage has labels of every kind that a shim could take for its own.
var evilImage = map[string]string{
	"maintainer":            "mallory",
	LabelKind:               LabelKindSandbox,
	LabelSandboxID:          "evil",
	LabelLogPath:            "/etc/passwd",
	LabelContainerName:      sandboxPart,
	LabelRecord:             `{"name":"k8s_POD_evil_evil_evil_0","labels":["maintainer"]}`,
	"annotation.evil":       "yes",
	"io.kubernetes.pod.uid": "evil",
}

// difficultLabels collide with labels that have a meaning to criadapter.
var difficultLabels = map[string]string{
	"app":                         "web",
	"":                            "no key",
	"empty":                       "",
	"io.kubernetes.pod.name":      "web-0",
	"io.kubernetes.pod.namespace": "shop",
	LabelKind:                     "mine",
	LabelSandboxID:                "mine too",
	LabelLogPath:                  "/mine",
	LabelContainerName:            "app",
	LabelRecord:                   "{}",
	"annotation.a":                "a label, not an annotation",
	"annotation.":                 "one more",
}

var difficultAnnotations = map[string]string{
	"a":                  "an annotation",
	"":                   "no key",
	"annotation.a":       "nested",
	LabelKind:            "sandbox?",
	LabelRecord:          "\x00\u2028<>&",
	"kubectl.kubernetes": "{\"json\":\"\\\"\"}\n",
}

func TestLabelsRoundTrip(t *testing.T) {
	for _, tc := range []struct {
		name                string
		labels, annotations map[string]string
	}{
		{"none", nil, nil},
		{"labels", map[string]string{"app": "web"}, nil},
		{"annotations", nil, map[string]string{"app": "web"}},
		{"difficult", difficultLabels, difficultAnnotations},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkPodRoundTrip(t, tc.labels, tc.annotations)
			checkContainerRoundTrip(t, tc.labels, tc.annotations)
		})
	}
}

func checkPodRoundTrip(t *testing.T, labels, annotations map[string]string) {
	t.Helper()
	in := sandboxInput()
	in.Config.Labels, in.Config.Annotations = labels, annotations
	spec := mustSandbox(t, in)
	merged := mergeImageLabels(spec.Config, evilImage)
	kind := Identify("/"+spec.Name, merged)
	testutil.Require(t, kind == KindSandbox, "the sandbox is identified as %v", kind)
	testutil.Assert(t, MadeByUs(merged), "MadeByUs does not recognise our sandbox")
	got, err := PodConfig(merged, "/"+spec.Name)
	testutil.Must(t, err)
	checkMaps(t, got.GetLabels(), labels, got.GetAnnotations(), annotations)
	testutil.Assert(t, proto.Equal(got.GetMetadata(), in.Config.GetMetadata()),
		"metadata %v, want %v", got.GetMetadata(), in.Config.GetMetadata())
}

func checkContainerRoundTrip(t *testing.T, labels, annotations map[string]string) {
	t.Helper()
	in := containerInput()
	in.Config.Labels, in.Config.Annotations = labels, annotations
	spec := mustContainer(t, in)
	merged := mergeImageLabels(spec.Config, evilImage)
	kind := Identify(spec.Name, merged)
	testutil.Require(t, kind == KindContainer, "the container is identified as %v", kind)
	got, id, err := ContainerConfig(merged, spec.Name)
	testutil.Must(t, err)
	checkMaps(t, got.GetLabels(), labels, got.GetAnnotations(), annotations)
	testutil.Assert(t, id == sandboxID, "the container's sandbox is %s", id)
	testutil.Equal(t, LogPath(merged), "/var/log/pods/shop_web-0_6f1c7a3e/app/1.log", "the log path")
	m := got.GetMetadata()
	testutil.Assert(t, m.GetName() == "app" && m.GetAttempt() == 1, "metadata %v", m)
}

// A container of a user may have the labels of a pod's container from its image.
func TestContainerOfNoPod(t *testing.T) {
	spec := mustContainer(t, containerInput())
	of := func(names ...string) bool {
		return OfNoPod(container.Summary{Names: names, Labels: spec.Config.Labels})
	}
	testutil.Assert(t, !of("/linked/alias", "/"+spec.Name), "a pod's container belongs to no pod")
	testutil.Assert(t, of("/linked/alias", "/mine"), "a user's container belongs to a pod")
}

func checkMaps(t *testing.T, labels, wantLabels, annotations, wantAnnotations map[string]string) {
	t.Helper()
	testutil.Assert(t, maps.Equal(labels, wantLabels), "labels %q, want %q", labels, wantLabels)
	testutil.Assert(t, maps.Equal(annotations, wantAnnotations),
		"annotations %q, want %q", annotations, wantAnnotations)
}

func TestLabelsRoundTripQuick(t *testing.T) {
	check := func(labels, annotations map[string]string) bool {
		in := sandboxInput()
		in.Config.Labels, in.Config.Annotations = labels, annotations
		spec, err := Sandbox(in)
		if err != nil {
			return errdefs.IsInvalidArgument(err) && !(validText(labels) && validText(annotations))
		}
		got, err := PodConfig(mergeImageLabels(spec.Config, evilImage), spec.Name)
		return err == nil && maps.Equal(got.GetLabels(), labels) && maps.Equal(got.GetAnnotations(), annotations)
	}
	testutil.Check(t, quick.Check(check, nil))
}

func validText(values map[string]string) bool {
	for key, value := range values {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

func FuzzLabelsRoundTrip(f *testing.F) {
	f.Add("app", "web", "a", "b", "maintainer", "mallory")
	f.Add(LabelKind, LabelKindSandbox, LabelRecord, "{}", LabelRecord, `{"name":"x"}`)
	f.Add("annotation.a", "x", "a", "y", "annotation.a", "z")
	f.Add("", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, label, labelValue, annotation, annotationValue, image, imageValue string) {
		labels, annotations := map[string]string{label: labelValue}, map[string]string{annotation: annotationValue}
		in := containerInput()
		in.Config.Labels, in.Config.Annotations = labels, annotations
		spec, err := Container(in)
		if err != nil {
			testutil.Require(t, !validText(labels) || !validText(annotations), "refused: %v", err)
			return
		}
		got, _, err := ContainerConfig(mergeImageLabels(spec.Config, map[string]string{image: imageValue}), spec.Name)
		testutil.Must(t, err)
		checkMaps(t, got.GetLabels(), labels, got.GetAnnotations(), annotations)
	})
}

func FuzzReadLabels(f *testing.F) {
	f.Add("k8s_POD_web_shop_u_0", `{"name":"k8s_POD_web_shop_u_0","labels":["a"]}`, "a")
	f.Add("k8s_POD_web_shop_u_0", `{"name":"k8s_POD_web_shop_u_0","labels":["b"]}`, "a")
	f.Add("k8s_app_web_shop_u_0", `{"name":1}`, LabelKind)
	f.Fuzz(func(t *testing.T, name, encoded, key string) {
		labels := map[string]string{LabelRecord: encoded, key: "value"}
		config, err := PodConfig(labels, name)
		testutil.Assert(t, err != nil || config.GetMetadata().GetName() != "", "a pod without a name from %q", name)
		if config, _, err := ContainerConfig(labels, name); err == nil && config.GetMetadata().GetName() == "" {
			t.Errorf("a container without a name from %q", name)
		}
	})
}

// TestPodsOfCRIDockerd reads a pod with the labels that cri-dockerd's source code builds.
func TestPodsOfCRIDockerd(t *testing.T) {
	sandbox := map[string]string{
		"app":                                  "web",
		"io.kubernetes.pod.name":               "web-0",
		"annotation.kubernetes.io/config.seen": "now",
		"io.kubernetes.docker.type":            "podsandbox",
		"io.kubernetes.container.name":         "POD",
	}
	name := "/k8s_POD_web-0_shop_6f1c_2"
	kind := Identify(name, sandbox)
	testutil.Require(t, kind == KindSandbox, "the sandbox is identified as %v", kind)
	testutil.Assert(t, !MadeByUs(sandbox), "cri-dockerd's sandbox is taken for ours")
	pod, err := PodConfig(sandbox, name)
	testutil.Must(t, err)
	checkMaps(t, pod.GetLabels(), map[string]string{"app": "web", "io.kubernetes.pod.name": "web-0"},
		pod.GetAnnotations(), map[string]string{"kubernetes.io/config.seen": "now"})

	app := map[string]string{
		"io.kubernetes.container.name":            "app",
		"annotation.io.kubernetes.container.hash": "1f2e",
		"io.kubernetes.docker.type":               "container",
		"io.kubernetes.container.logpath":         "/var/log/pods/shop_web-0_6f1c/app/0.log",
		"io.kubernetes.sandbox.id":                sandboxID,
	}
	name = "/k8s_app_web-0_shop_6f1c_0_1a2b3c4d"
	kind = Identify(name, app)
	testutil.Require(t, kind == KindContainer, "the container is identified as %v", kind)
	c, id, err := ContainerConfig(app, name)
	testutil.Must(t, err)
	checkMaps(t, c.GetLabels(), map[string]string{"io.kubernetes.container.name": "app"},
		c.GetAnnotations(), map[string]string{"io.kubernetes.container.hash": "1f2e"})
	if id != sandboxID || LogPath(app) != "/var/log/pods/shop_web-0_6f1c/app/0.log" {
		t.Errorf("sandbox %s, log %s", id, LogPath(app))
	}
}

// cri-dockerd reads criadapter's containers by dockershim's rule. It finds the client's labels and annotations, with
// criadapter's record as one more label.
func TestOurPodsForCRIDockerd(t *testing.T) {
	in := containerInput()
	in.Config.Labels = map[string]string{"io.kubernetes.container.name": "app", "app": "web"}
	in.Config.Annotations = map[string]string{"hash": "1f2e"}
	spec := mustContainer(t, in)
	labels, annotations := filterLabels(spec.Config.Labels)
	checkMaps(t, labels, in.Config.Labels, annotations, in.Config.Annotations)
	for label, want := range map[string]string{
		"io.kubernetes.docker.type":       "container",
		"io.kubernetes.sandbox.id":        sandboxID,
		"io.kubernetes.container.logpath": "/var/log/pods/shop_web-0_6f1c7a3e/app/1.log",
	} {
		testutil.Equal(t, spec.Config.Labels[label], want, "%s", label)
	}
}

// An image cannot supply an identity label: every create sets each identity label, if only to an empty value.
func TestIdentityLabelsAreAlwaysSet(t *testing.T) {
	identity := []string{LabelKind, LabelSandboxID, LabelLogPath, LabelRecord}
	sandbox := mustSandbox(t, sandboxInput()).Config.Labels
	in := containerInput()
	in.Config.LogPath = ""
	app := mustContainer(t, in).Config.Labels
	for _, label := range append(slices.Clone(identity), LabelContainerName) {
		_, ok := sandbox[label]
		testutil.Assert(t, ok, "a sandbox lacks %s", label)
	}
	for _, label := range identity {
		_, ok := app[label]
		testutil.Assert(t, ok, "a container lacks %s", label)
	}
}

func TestIdentify(t *testing.T) {
	sandbox := map[string]string{LabelKind: LabelKindSandbox, LabelContainerName: sandboxPart}
	app := map[string]string{LabelKind: LabelKindContainer, LabelSandboxID: sandboxID}
	for _, tc := range []struct {
		name   string
		labels map[string]string
		want   Kind
	}{
		{"k8s_POD_p_n_u_0", sandbox, KindSandbox},
		{"/k8s_POD_p_n_u_0", sandbox, KindSandbox},
		{"k8s_app_p_n_u_0", app, KindContainer},
		// Only the labels, as on a container that a user runs from an image that carries them.
		{"nginx", sandbox, KindNone},
		{"nginx", app, KindNone},
		{"k8s_POD_p_n_u", sandbox, KindNone},
		// Only the name.
		{"k8s_POD_p_n_u_0", nil, KindNone},
		{"k8s_app_p_n_u_0", nil, KindNone},
		// Name and labels that contradict each other.
		{"k8s_app_p_n_u_0", sandbox, KindNone},
		{"k8s_POD_p_n_u_0", app, KindNone},
		{"k8s_POD_p_n_u_0", map[string]string{LabelKind: LabelKindSandbox, LabelContainerName: "app"}, KindNone},
		{"k8s_app_p_n_u_0", map[string]string{LabelKind: LabelKindContainer}, KindNone},
		{"k8s_POD_p_n_u_0", map[string]string{LabelKind: "something", LabelContainerName: sandboxPart}, KindNone},
	} {
		testutil.Equal(t, Identify(tc.name, tc.labels), tc.want, "%s with %v", tc.name, tc.labels)
	}
}

func TestConfigsOfTheWrongKind(t *testing.T) {
	for _, name := range []string{"nginx", "k8s_app_p_n_u_0", ""} {
		_, err := PodConfig(nil, name)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "the pod of %q: %v", name, err)
	}
	for _, name := range []string{"nginx", "k8s_POD_p_n_u_0", ""} {
		_, _, err := ContainerConfig(nil, name)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "the container of %q: %v", name, err)
	}
}

func TestDamagedRecord(t *testing.T) {
	spec := mustSandbox(t, func() SandboxInput {
		in := sandboxInput()
		in.Config.Labels = map[string]string{"app": "web"}
		return in
	}())
	delete(spec.Config.Labels, "app")
	_, err := PodConfig(spec.Config.Labels, spec.Name)
	testutil.Assert(t, errdefs.IsDataLoss(err), "a label is missing: %v", err)
}

// Another shim's container may have a record from its image. This record does not hide the container's labels.
func TestRecordOfAnImageIsNotBelieved(t *testing.T) {
	labels := map[string]string{
		LabelKind: LabelKindContainer, LabelSandboxID: sandboxID, "app": "web",
		LabelRecord: `{"name":"k8s_evil_evil_evil_evil_0","hiddenLabels":{"app":"evil"}}`,
	}
	config, _, err := ContainerConfig(labels, "k8s_app_p_n_u_0")
	testutil.Must(t, err)
	checkMaps(t, config.GetLabels(), map[string]string{"app": "web"}, config.GetAnnotations(), nil)
}

func TestLabelsThatAreNoText(t *testing.T) {
	for field, mod := range map[string]func(*runtimeapi.PodSandboxConfig){
		"config.labels":      func(c *runtimeapi.PodSandboxConfig) { c.Labels = map[string]string{"a": "\xff"} },
		"config.annotations": func(c *runtimeapi.PodSandboxConfig) { c.Annotations = map[string]string{"\xff": "a"} },
	} {
		in := sandboxInput()
		mod(in.Config)
		_, err := Sandbox(in)
		wantRefusal(t, err, field)
	}
}
