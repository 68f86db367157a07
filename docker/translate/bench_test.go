package translate

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// BenchmarkSandbox is what RunPodSandbox pays before its first engine call.
func BenchmarkSandbox(b *testing.B) {
	in := sandboxInput()
	b.ReportAllocs()
	for b.Loop() {
		_, err := Sandbox(in)
		testutil.Must(b, err)
	}
}

// BenchmarkContainer is what CreateContainer pays.
func BenchmarkContainer(b *testing.B) {
	in := containerInput()
	b.ReportAllocs()
	for b.Loop() {
		_, err := Container(in)
		testutil.Must(b, err)
	}
}

// BenchmarkContainerConfig reads a container back from its labels, once for each
// container at a start.
func BenchmarkContainerConfig(b *testing.B) {
	in := containerInput()
	labels := mustContainer(b, in).Config.Labels
	name := containerName(in.Sandbox.Config.Metadata, in.Config.Metadata)
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := ContainerConfig(labels, name)
		testutil.Must(b, err)
	}
}
