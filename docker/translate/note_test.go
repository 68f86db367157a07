package translate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
)

// noted is an engine of API 1.41 with the OCI runtime.
func noted(in ContainerInput) ContainerInput {
	in.Features.OCIRuntime = docker.OCIRuntime{Name: "criadapter", RecursiveReadOnly: true}
	return in
}

func TestNotes(t *testing.T) {
	strict := &runtimeapi.LinuxContainerSecurityContext{
		SupplementalGroups: []int64{7}, SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
	}
	ambient := &runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{
		AddCapabilities: []string{"CHOWN"}, AddAmbientCapabilities: []string{"cap_net_raw", "SYS_TIME"},
	}}
	recursive := &runtimeapi.Mount{HostPath: "/srv", ContainerPath: "/data/", Readonly: true, RecursiveReadOnly: true}
	for name, c := range map[string]struct {
		change func(*runtimeapi.ContainerConfig)
		want   *ocinote.Note
	}{
		"nothing to say": {func(*runtimeapi.ContainerConfig) {}, nil},
		"strict groups": {
			func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext = strict },
			&ocinote.Note{Process: ocinote.Process{Groups: &[]uint32{7}}},
		},
		"ambient capabilities": {
			func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext = ambient },
			&ocinote.Note{Process: ocinote.Process{Ambient: []string{"CAP_NET_RAW", "CAP_SYS_TIME"}}},
		},
		"a recursive mount": {
			func(c *runtimeapi.ContainerConfig) { c.Mounts = []*runtimeapi.Mount{recursive} },
			&ocinote.Note{MountOptions: map[string][]string{"/data": {"rro"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := noted(containerInput())
			c.change(in.Config)
			spec, err := Container(in)
			if err != nil || !reflect.DeepEqual(spec.Note, c.want) {
				t.Fatalf("got %+v, %v", spec.Note, err)
			}
			for _, capability := range ambientOf(spec) {
				if !slices.Contains(spec.Host.CapAdd, capability) {
					t.Errorf("%s is ambient and not among %v", capability, spec.Host.CapAdd)
				}
			}
			if c.want == nil {
				return
			}
			in.Features.OCIRuntime.Name = ""
			in.Features.OCIRuntime.RecursiveReadOnly = false
			if _, err := Container(in); !errdefs.IsNotImplemented(err) {
				t.Errorf("without the runtime: %v", err)
			}
			in = noted(in)
			in.Features.Runtimes = append(in.Features.Runtimes, "other")
			in.Sandbox.RuntimeHandler = "other" // in front of which it does not stand
			if _, err := Container(in); !errdefs.IsNotImplemented(err) {
				t.Errorf("with another handler: %v", err)
			}
		})
	}
}

func TestAmbientCapabilitiesThatAreNone(t *testing.T) {
	for _, name := range []string{"ALL", "", "NET RAW"} {
		in := noted(containerInput())
		in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
			Capabilities: &runtimeapi.Capability{AddAmbientCapabilities: []string{name}},
		}
		if _, err := Container(in); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func ambientOf(spec docker.ContainerSpec) []string {
	if spec.Note == nil {
		return nil
	}
	return spec.Note.Process.Ambient
}
