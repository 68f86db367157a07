package translate

import (
	"maps"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestMarkOfTheOwner(t *testing.T) {
	const ours, theirs = "/var/lib/criadapter", "/srv/criadapter"
	in := sandboxInput()
	in.RootDirectory = ours
	in.Config.Labels = map[string]string{"app": "web", LabelRootDirectory: "the client's own"}
	sandbox := mustSandbox(t, in)
	app := containerInput()
	app.RootDirectory = ours
	for _, spec := range []struct {
		name   string
		labels map[string]string
	}{{sandbox.Name, sandbox.Config.Labels}, {mustContainer(t, app).Name, mustContainer(t, app).Config.Labels}} {
		testutil.Equal(t, spec.labels[LabelRootDirectory], ours, "%s carries the mark", spec.name)
		for own, want := range map[string]string{ours: "", theirs: ours, "": ""} {
			if got := OtherRootDirectory("/"+spec.name, spec.labels, own); got != want {
				t.Errorf("%s has the owner %q for the criadapter at %q, want %q", spec.name, got, own, want)
			}
		}
	}
	config, err := PodConfig(sandbox.Config.Labels, sandbox.Name)
	testutil.Must(t, err)
	testutil.Assert(t, maps.Equal(config.Labels, in.Config.Labels),
		"the client gets the labels %v, gave %v", config.Labels, in.Config.Labels)
}

// Containers of other shims, and of a criadapter without a mark, have no owner. A mark from an image's labels does not
// count.
func TestNoMarkOfAnOwner(t *testing.T) {
	unmarked := mustSandbox(t, sandboxInput())
	in := sandboxInput()
	in.RootDirectory = "/theirs"
	marked := mustSandbox(t, in)
	for name, tc := range map[string]struct {
		name   string
		labels map[string]string
	}{
		"unmarked": {unmarked.Name, unmarked.Config.Labels},
		"another shim": {"k8s_POD_p_n_u_0",
			map[string]string{LabelKind: LabelKindSandbox, LabelContainerName: sandboxPart}},
		"of an image": {"k8s_POD_p_n_u_0", marked.Config.Labels},
		"alone":       {"k8s_POD_p_n_u_0", map[string]string{LabelRootDirectory: "/theirs"}},
	} {
		testutil.Equal(t, OtherRootDirectory(tc.name, tc.labels, "/ours"), "", "%s: the owner", name)
		testutil.Equal(t, MadeUnder("/"+tc.name, tc.labels), name == "unmarked", "%s: made by a criadapter", name)
		given, _ := filterLabels(tc.labels)
		_, shown := given[LabelRootDirectory]
		testutil.Assert(t, !shown, "%s: the mark is among the client's labels", name)
	}
}
