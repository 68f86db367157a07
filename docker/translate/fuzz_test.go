package translate

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

func seed(f *testing.F, message proto.Message) []byte {
	f.Helper()
	encoded, err := proto.Marshal(message)
	testutil.Must(f, err)
	return encoded
}

func pickEngine(newer bool) docker.Features {
	if newer {
		return newEngine()
	}
	return oldEngine()
}

// checkSpec checks properties of every spec that was not refused.
func checkSpec(t *testing.T, spec docker.ContainerSpec, kind Kind) {
	t.Helper()
	testutil.Equal(t, Identify(spec.Name, spec.Config.Labels), kind, "%s is identified as", spec.Name)
	encoded, err := json.Marshal(spec)
	testutil.Must(t, err)
	var back docker.ContainerSpec
	testutil.Must(t, json.Unmarshal(encoded, &back))
	testutil.Assert(t, maps.Equal(back.Config.Labels, spec.Config.Labels),
		"the labels change on the way to the engine: %q", spec.Config.Labels)
}

// FuzzSandbox tries any bytes that protobuf decodes as a pod.
func FuzzSandbox(f *testing.F) {
	f.Add(seed(f, kubeletPod()), "", false, false)
	f.Add(seed(f, sandboxInput().Config), "docker", true, true)
	f.Fuzz(func(t *testing.T, encoded []byte, handler string, publish, newer bool) {
		config := &runtimeapi.PodSandboxConfig{}
		if proto.Unmarshal(encoded, config) != nil {
			t.Skip("no pod")
		}
		before := proto.CloneOf(config)
		spec, err := Sandbox(
			SandboxInput{Config: config, RuntimeHandler: handler, Image: "pause", Features: pickEngine(newer),
				PublishPorts: publish})
		testutil.Assert(t, proto.Equal(before, config), "the client's request was changed")
		if err != nil {
			testutil.Assert(t, errdefs.IsInvalidArgument(err) || errdefs.IsNotImplemented(err), "refused by %v", err)
			return
		}
		checkSpec(t, spec, KindSandbox)
		back, err := PodConfig(spec.Config.Labels, spec.Name)
		testutil.Must(t, err)
		want := &runtimeapi.PodSandboxConfig{Metadata: config.GetMetadata(), Labels: config.GetLabels(),
			Annotations: config.GetAnnotations()}
		testutil.Assert(t, sameIdentity(back, want), "read back as %v, want %v", back, want)
	})
}

func sameIdentity(a, b *runtimeapi.PodSandboxConfig) bool {
	am, bm := a.GetMetadata(), b.GetMetadata()
	return am.GetName() == bm.GetName() && am.GetNamespace() == bm.GetNamespace() && am.GetUid() == bm.GetUid() &&
		am.GetAttempt() == bm.GetAttempt() &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// FuzzContainer tries any bytes that protobuf decodes as a container.
func FuzzContainer(f *testing.F) {
	f.Add(seed(f, kubeletContainer()), false)
	f.Add(seed(f, containerInput().Config), true)
	f.Fuzz(func(t *testing.T, encoded []byte, newer bool) {
		config := &runtimeapi.ContainerConfig{}
		if proto.Unmarshal(encoded, config) != nil {
			t.Skip("no container")
		}
		before := proto.CloneOf(config)
		pod := kubeletPod()
		pod.Linux.CgroupParent = ""
		spec, err := Container(ContainerInput{
			Config: config, Sandbox: SandboxRef{ID: sandboxID, Config: pod}, ImageID: "app",
			Features:    pickEngine(newer),
			Files:       HostFiles{Hosts: "/p/hosts"},
			ReadProfile: func(path string) ([]byte, error) { return []byte(path), nil },
		})
		testutil.Assert(t, proto.Equal(before, config), "the client's request was changed")
		if err != nil {
			testutil.Assert(t, errdefs.IsInvalidArgument(err) || errdefs.IsNotImplemented(err), "refused by %v", err)
			return
		}
		checkSpec(t, spec, KindContainer)
		back, id, err := ContainerConfig(spec.Config.Labels, spec.Name)
		if err != nil || id != sandboxID {
			t.Fatal(id, err)
		}
		testutil.Assert(t, back.GetMetadata().GetName() == config.GetMetadata().GetName() &&
			back.GetMetadata().GetAttempt() == config.GetMetadata().GetAttempt(),
			"metadata %v, want %v", back.GetMetadata(), config.GetMetadata())
		checkMaps(t, back.GetLabels(), config.GetLabels(), back.GetAnnotations(), config.GetAnnotations())
	})
}

// FuzzSeccompProfile tries any bytes as a profile.
func FuzzSeccompProfile(f *testing.F) {
	f.Add([]byte(profileText))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"defaultAction":"SCMP_ACT_ALLOW"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		compact, err := compactProfile(content)
		if err != nil {
			return
		}
		if again, err := compactProfile([]byte(compact)); err != nil || again != compact {
			t.Errorf("%q becomes %q, which becomes %q, %v", content, compact, again, err)
		}
	})
}
