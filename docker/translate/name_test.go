package translate

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		name      string
		pod       *runtimeapi.PodSandboxMetadata
		container *runtimeapi.ContainerMetadata
		want      string
	}{
		{
			"dockershim's sandbox",
			&runtimeapi.PodSandboxMetadata{Name: "web-0", Namespace: "shop", Uid: "6f1c", Attempt: 3}, nil,
			"k8s_POD_web-0_shop_6f1c_3",
		},
		{
			"dockershim's container, with its own attempt",
			&runtimeapi.PodSandboxMetadata{Name: "node.x86-64", Namespace: "shop", Uid: "6f1c", Attempt: 3},
			&runtimeapi.ContainerMetadata{Name: "app", Attempt: 7},
			"k8s_app_node.x86-64_shop_6f1c_7",
		},
		{
			"a delimiter in the metadata",
			&runtimeapi.PodSandboxMetadata{Name: "my_pod", Namespace: "a_b", Uid: "u"}, nil,
			"k8s_POD_my.X5Fpod_a.X5Fb_u_0",
		},
		{
			"text that looks escaped",
			&runtimeapi.PodSandboxMetadata{Name: "a.X5F", Namespace: ".X", Uid: "u/é"}, nil,
			"k8s_POD_a.X2EX5F_.X_u.X2F.XC3.XA9_0",
		},
		{
			"a container with the name of a sandbox",
			&runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "n", Uid: "u"},
			&runtimeapi.ContainerMetadata{Name: "POD"},
			"k8s_.X50OD_p_n_u_0",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := SandboxName(tc.pod)
			if tc.container != nil {
				got = containerName(tc.pod, tc.container)
			}
			testutil.Require(t, got == tc.want, "got %s, want %s", got, tc.want)
			checkParsed(t, got, tc.pod, tc.container)
		})
	}
}

// checkParsed reads a name back, also with the additions of the engine and of dockershim.
func checkParsed(t *testing.T, name string, pod *runtimeapi.PodSandboxMetadata, c *runtimeapi.ContainerMetadata) {
	t.Helper()
	want := parsedName{kind: KindSandbox, pod: pod.GetName(), namespace: pod.GetNamespace(), uid: pod.GetUid(),
		attempt: pod.GetAttempt()}
	if c != nil {
		want.kind, want.container, want.attempt = KindContainer, c.GetName(), c.GetAttempt()
	}
	for _, text := range []string{name, "/" + name, name + "_0badcafe"} {
		got, ok := parseName(text)
		testutil.Assert(t, ok && got == want, "%s reads as %+v, %v, want %+v", text, got, ok, want)
	}
	for i := range len(name) {
		c := name[i]
		testutil.Assert(t, isNameByte(c) || c == '_', "%s holds %q, which Docker refuses", name, c)
	}
}

func TestNamesOfOthers(t *testing.T) {
	for _, name := range []string{
		"", "/", "web", "k8s", "k8s_POD_web_shop_6f1c", "k8s_POD_web_shop_6f1c_", "k8s_POD_web_shop_6f1c_x",
		"k8s_POD_web_shop_6f1c_-1", "k8s_POD_web_shop_6f1c_4294967296", "k8s__web_shop_6f1c_0", "k8s_POD__shop_6f1c_0",
		"K8S_POD_web_shop_6f1c_0", "k8s_POD_web_shop_6f1c_0_", "k8s_POD_web_shop_6f1c_0_backup",
		"k8s_POD_web_shop_6f1c_0_0BADCAFE",
		"k8s_POD_web_shop_6f1c_0_0badcafe_0badcafe", "x_k8s_POD_web_shop_6f1c_0",
	} {
		got, ok := parseName(name)
		testutil.Assert(t, !ok, "%q reads as %+v, want no name of ours", name, got)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("web-0", "shop", "6f1c", "app", uint32(1), uint32(2))
	f.Add("my_pod", "a.X5F", ".X.X", "POD", uint32(0), uint32(1<<32-1))
	f.Add("\x00", "é", "..", ".X50OD", uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, name, namespace, uid, container string, podAttempt, attempt uint32) {
		if name == "" || namespace == "" || uid == "" || container == "" {
			t.Skip("refused before a name is made")
		}
		pod := &runtimeapi.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: uid, Attempt: podAttempt}
		checkParsed(t, SandboxName(pod), pod, nil)
		c := &runtimeapi.ContainerMetadata{Name: container, Attempt: attempt}
		checkParsed(t, containerName(pod, c), pod, c)
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("k8s_POD_web-0_shop_6f1c_3")
	f.Add("/k8s_app_my.X5Fpod_shop_6f1c_3_0badcafe")
	f.Add("k8s_.X50OD_.X_..X2_u_0")
	f.Fuzz(func(t *testing.T, name string) {
		parsed, ok := parseName(name)
		if !ok {
			return
		}
		pod := &runtimeapi.PodSandboxMetadata{Name: parsed.pod, Namespace: parsed.namespace, Uid: parsed.uid,
			Attempt: parsed.attempt}
		again := SandboxName(pod)
		if parsed.kind == KindContainer {
			again = containerName(pod, &runtimeapi.ContainerMetadata{Name: parsed.container, Attempt: parsed.attempt})
		}
		if back, ok := parseName(again); !ok || back != parsed {
			t.Errorf("%q reads as %+v, whose name %q reads as %+v", name, parsed, again, back)
		}
	})
}

func TestMetadataRefusals(t *testing.T) {
	long := strings.Repeat("x", maxNamePart+1)
	for _, tc := range []struct {
		name  string
		field string
		mod   func(m *runtimeapi.PodSandboxMetadata)
	}{
		{"no name", "name", func(m *runtimeapi.PodSandboxMetadata) { m.Name = "" }},
		{"no namespace", "namespace", func(m *runtimeapi.PodSandboxMetadata) { m.Namespace = "" }},
		{"no uid", "uid", func(m *runtimeapi.PodSandboxMetadata) { m.Uid = "" }},
		{"long name", "name", func(m *runtimeapi.PodSandboxMetadata) { m.Name = long }},
		{"long namespace", "namespace", func(m *runtimeapi.PodSandboxMetadata) { m.Namespace = long }},
		{"long uid", "uid", func(m *runtimeapi.PodSandboxMetadata) { m.Uid = long }},
		{"line break in the name", "name", func(m *runtimeapi.PodSandboxMetadata) { m.Name = "a\nb" }},
		{"bytes that are not UTF-8", "uid", func(m *runtimeapi.PodSandboxMetadata) { m.Uid = "\xff" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := sandboxInput()
			tc.mod(in.Config.Metadata)
			_, err := Sandbox(in)
			wantRefusal(t, err, "config.metadata."+tc.field)

			inContainer := containerInput()
			inContainer.Sandbox.Config = proto.CloneOf(in.Config)
			_, err = Container(inContainer)
			wantRefusal(t, err, "sandbox_config.metadata."+tc.field)
		})
	}
	t.Run("longest", func(t *testing.T) {
		in := sandboxInput()
		in.Config.Metadata.Name = long[1:]
		mustSandbox(t, in)
	})
}
