package translate

import "testing"

// BenchmarkSandbox is what RunPodSandbox pays before its first engine call.
func BenchmarkSandbox(b *testing.B) {
	in := sandboxInput()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Sandbox(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkContainer is what CreateContainer pays.
func BenchmarkContainer(b *testing.B) {
	in := containerInput()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Container(in); err != nil {
			b.Fatal(err)
		}
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
		if _, _, err := ContainerConfig(labels, name); err != nil {
			b.Fatal(err)
		}
	}
}
