package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// versionPrefix matches the API version at the start of a request's path.
var versionPrefix = regexp.MustCompile(`/v1\.[0-9]+/`)

// If a request names the image by its id, as a kubelet's does, CreateContainer makes two engine calls: create and
// inspect. It does not inspect the image. With images in containerd, that would take half as long as the creation of
// the container.
func TestCreateContainerAsksTheEngineTwice(t *testing.T) {
	env := rigenv.Require(t)
	counter := countCalls(t, env)
	w := newWorkerWith(t, adapter.Options{Env: env, Flags: []string{"--docker-endpoint=unix://" + counter.path}})
	image, err := w.server.Images.ImageStatus(t.Context(),
		&runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")}, false)
	testutil.Must(t, err)
	counter.awaitSilence(t)
	id, err := w.server.Runtime.CreateContainer(t.Context(), w.pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "second"},
		Image:    &runtimeapi.ImageSpec{Image: image.GetImage().GetId()},
		Command:  []string{"sleep", "1000"},
	}, w.config)
	testutil.Must(t, err)
	var got []string
	for _, call := range counter.awaitSilence(t) {
		got = append(got, strings.ReplaceAll(versionPrefix.ReplaceAllString(call, "/"), id, "ID"))
	}
	// If the engine's event arrives before its answer, the cache also inspects the container.
	got = slices.Compact(got)
	want := []string{"POST /containers/create", "GET /containers/ID/json"}
	testutil.Assert(t, slices.Equal(got, want), "the engine was asked %q, want %q", got, want)
}
