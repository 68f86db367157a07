package translate

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestShimGroup checks that the containers of a pod and its sandbox container share a shim if they have the same OCI
// runtime.
func TestShimGroup(t *testing.T) {
	in := containerInput()
	in.Features = newEngine()
	group := func(in ContainerInput) string { return mustContainer(t, in).Host.Annotations[shimGroup] }
	first := group(in)
	testutil.Assert(t, first != "", "no group")
	sandbox, err := Sandbox(SandboxInput{Config: in.Sandbox.Config, Image: "pause", Features: in.Features})
	testutil.Must(t, err)
	testutil.Equal(t, sandbox.Host.Annotations[shimGroup], first, "the sandbox container's group")

	other := in
	other.Config.Metadata.Name = "other"
	testutil.Equal(t, group(other), first, "another container's group")
	other.RuntimeAnnotations = []string{"*"}
	other.Config.Annotations = map[string]string{shimGroup: "another pod's"}
	testutil.Equal(t, group(other), first, "the group of a container that asks for another group")
	withNote := noted(in)
	withNote.Config.Linux.SecurityContext.SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
	testutil.Assert(t, mustContainer(t, withNote).Note != nil, "no note")
	testutil.Assert(t, group(withNote) != first, "a container with a note has the group of containers without a note")
	withNote.Features.ScriptedRuntimes = []string{withNote.Features.OCIRuntime.Name}
	testutil.Equal(t, group(withNote), "", "the group of a runtime that a script starts")
	in.Config.Linux.SecurityContext.SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Merge
	scripted := in
	scripted.Features.ScriptedRuntimes = []string{in.Features.DefaultRuntime}
	testutil.Equal(t, group(scripted), "", "the group of a default runtime that a script starts")
	in.Features.APIVersion = "1.42"
	testutil.Equal(t, group(in), "", "the group below API 1.43")
}
