package translate

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// BenchmarkSandbox measures the translation in RunPodSandbox, before its first engine call.
func BenchmarkSandbox(b *testing.B) {
	in := sandboxInput()
	b.ReportAllocs()
	for b.Loop() {
		_, err := Sandbox(in)
		testutil.Must(b, err)
	}
}

// BenchmarkContainer measures the translation in CreateContainer.
func BenchmarkContainer(b *testing.B) {
	in := containerInput()
	b.ReportAllocs()
	for b.Loop() {
		_, err := Container(in)
		testutil.Must(b, err)
	}
}

// BenchmarkContainerConfig measures reading a container back from its labels. The server does this once for each
// container at its start.
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
