package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/test/rig/artifacts"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestPullPolicies: the pull policy decides whether a present image is pulled again.
func TestPullPolicies(t *testing.T) {
	n := newNode(t)
	n.run("first", "sleep 1000")
	for policy, want := range map[string]string{"Always": "Successfully pulled image",
		"IfNotPresent": "already present", "Never": "already present"} {
		name := strings.ToLower(policy)
		n.write(name+".yaml", strings.Replace(simple(name, "sleep 1000"), "IfNotPresent", policy, 1))
		n.ready(name)
		event := n.event(name, "Pulled")
		testutil.Assert(t, strings.Contains(event.Message, want), "%s: %q, want %q", policy, event.Message, want)
	}
}

// privateImage uploads an image that no other test has. It returns the image's name at the registry that demands
// credentials.
func privateImage(n *node) string {
	n.t.Helper()
	name := strings.ToLower(rigenv.Unique(n.t.Name())) + ":1"
	from, err := ggcr.ParseReference(n.env.Image(shell))
	testutil.Must(n.t, err)
	base, err := remote.Image(from)
	testutil.Must(n.t, err)
	config, err := base.ConfigFile()
	testutil.Must(n.t, err)
	own := config.Config.DeepCopy()
	own.Labels = map[string]string{"test": name}
	image, err := mutate.Config(base, *own)
	testutil.Must(n.t, err)
	artifacts.Push(n.t, n.env.Registry+"/"+name, image)
	return n.env.AuthRegistry + "/" + name
}

// TestPrivateImages: a pod without the pull secret cannot use an image that a pod with the secret has pulled
// (KEP-2535). The same holds after a restart of the kubelet.
func TestPrivateImages(t *testing.T) {
	n := newNode(t)
	image := privateImage(n)
	auths, err := json.Marshal(map[string]any{"auths": map[string]any{n.env.AuthRegistry: map[string]string{
		"username": rigenv.RegistryUser, "password": rigenv.RegistryPassword}}})
	testutil.Must(t, err)
	n.write("login.yaml", fmt.Sprintf(
		"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {name: login}\n"+
			"stringData: {.dockerconfigjson: %q}\n", auths))
	pod := func(name, policy string, extra ...string) {
		text := strings.Replace(simple(name, "sleep 1000", extra...), "SHELL", image, 1)
		n.write(name+".yaml", strings.Replace(text, "IfNotPresent", policy, 1))
	}
	pod("with", "IfNotPresent", "imagePullSecrets: [{name: login}]")
	n.ready("with")
	pod("without", "IfNotPresent")
	n.until("without", wantWaiting("main", "", "ErrImagePull", "ImagePullBackOff"))
	pod("never", "Never")
	n.until("never", wantWaiting("main", "", "ErrImageNeverPull"))
	pod("again", "Never", "imagePullSecrets: [{name: login}]")
	n.ready("again")

	n.stop()
	n.start()
	pod("later", "Never")
	n.until("later", wantWaiting("main", "", "ErrImageNeverPull"))
	pod("last", "IfNotPresent", "imagePullSecrets: [{name: login}]")
	n.ready("last")
	event := n.event("last", "Pulled")
	testutil.Assert(t, strings.Contains(event.Message, "already present"), "last: %q", event.Message)
}

// some is a runtime that lists only the named images, so that the images of other tests stay.
type some struct {
	internalapi.ImageManagerService
	names []string
}

func (s some) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	all, err := s.ImageManagerService.ListImages(ctx, filter)
	return slices.DeleteFunc(all, func(image *runtimeapi.Image) bool {
		return !slices.ContainsFunc(image.GetRepoTags(), func(tag string) bool { return slices.Contains(s.names, tag) })
	}), err
}

// TestImagesAreCollected removes an unused image from the runtime when the disk is full, and keeps an image that a pod
// uses.
func TestImagesAreCollected(t *testing.T) {
	n := newNode(t)
	n.run("pod", "sleep 1000")
	runtime, err := cri.Connect(t.Context(), cri.Options{Endpoint: n.server.Endpoint(), Owner: n.name})
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, runtime.Close(context.Background()))
	})
	used, unused := n.env.Image(shell), n.env.Image("test/evil:latest")
	_, err = runtime.Images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: unused}, nil, nil)
	testutil.Must(t, err)
	const size = 100 << 30
	full := func(path string) (uint64, uint64, error) {
		if path == "" {
			return 0, 0, fmt.Errorf("the runtime does not say where its images are")
		}
		return size, size / 20, nil
	}
	collector := imagemanager.NewCollector(imagemanager.CollectorOptions{
		Images: some{runtime.Images, []string{used, unused}}, Containers: runtime, HighPercent: 90, LowPercent: 80,
		Disk: full,
	})
	if err := collector.Collect(t.Context()); err == nil || !strings.Contains(err.Error(), "deleting unused images") {
		t.Errorf("one small image cannot make room on a full disk, but the collector returns %v", err)
	}
	for name, want := range map[string]bool{used: true, unused: false} {
		answer, err := runtime.Images.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: name}, false)
		testutil.Assert(t, err == nil && (answer.GetImage() != nil) == want,
			"%s is there: %t (%v), want %t", name, answer.GetImage() != nil, err, want)
	}
	pod := n.ready("pod")
	testutil.Assert(t, status(pod, "main").RestartCount == 0, "restarted: %s", states(pod))
}
