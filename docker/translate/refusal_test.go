package translate

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// The tests for refusals of fields are in the rows of server/fields.

func localhost(ref string) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: ref}
}

func TestSandboxWithoutAnImage(t *testing.T) {
	in := sandboxInput()
	in.Image = ""
	_, err := Sandbox(in)
	wantRefusal(t, err, "image")
}

func TestUpdateRefusals(t *testing.T) {
	_, err := Resources(&runtimeapi.LinuxContainerResources{CpuPeriod: 1}, docker.Features{})
	wantRefusal(t, err, "linux.cpu_period")
}

func devicesOf(list ...*runtimeapi.Device) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Devices = list }
}

func withCDI(names ...string) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) {
		for _, name := range names {
			c.CDIDevices = append(c.CDIDevices, &runtimeapi.CDIDevice{Name: name})
		}
	}
}

func seccompContent(content string, err error) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.ReadProfile = func(string) ([]byte, error) { return []byte(content), err }
		c.Linux.SecurityContext.Seccomp = localhost("/p.json")
	}
}
