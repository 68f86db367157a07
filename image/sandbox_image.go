package image

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pause"
)

// sandboxImage is the image that every pod starts from.
type sandboxImage struct {
	// reference is the image's name.
	reference string
	// builtIn says that the image is part of this program.
	builtIn bool
	// preparing lets one call at a time load or pull it.
	preparing turn

	mu sync.Mutex
	// present says that the engine is known to have the image.
	present bool
	// id is the image's id, empty until it was seen for the first time.
	id string
}

func newSandboxImage(configured string) (*sandboxImage, error) {
	if configured == "" {
		return &sandboxImage{reference: pause.Reference, builtIn: true, preparing: newTurn()}, nil
	}
	if _, err := reference.ParseAnyReference(configured); err != nil {
		return nil, fmt.Errorf("pod-infra-container-image %q is not an image's name: %v: %w", configured, err, errdefs.ErrInvalidArgument)
	}
	return &sandboxImage{reference: configured, preparing: newTurn()}, nil
}

// is reports whether img is the sandbox image, under whatever name.
func (i *sandboxImage) is(img *runtimeapi.Image) bool {
	if id := i.lastID(); id != "" && id == img.GetId() {
		return true
	}
	same := func(name string) bool { return sameReference(name, i.reference) }
	return i.reference == img.GetId() || slices.ContainsFunc(img.GetRepoTags(), same) || slices.ContainsFunc(img.GetRepoDigests(), same)
}

func (i *sandboxImage) lastID() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

func (i *sandboxImage) isPresent() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.present
}

func (i *sandboxImage) found(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.present, i.id = true, id
}

// lost forgets that the image is present. The id stays: if the image comes
// back, it has the same one.
func (i *sandboxImage) lost() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.present = false
}

// EnsureSandboxImage makes sure that the engine has the sandbox image and
// returns the reference to create sandboxes from. The built-in image is loaded,
// a configured one is pulled unless it is there, with the node's credentials. Once it
// was found, the answer comes from memory until ReloadSandboxImage.
func (s *Service) EnsureSandboxImage(ctx context.Context) (string, error) {
	if s.sandbox.isPresent() {
		return s.sandbox.reference, nil
	}
	if err := s.sandbox.preparing.take(ctx); err != nil {
		return "", fmt.Errorf("another call prepares the sandbox image: %w", err)
	}
	defer s.sandbox.preparing.give()
	if s.sandbox.isPresent() {
		return s.sandbox.reference, nil
	}
	prepare := s.pullSandboxImage
	if s.sandbox.builtIn {
		prepare = s.loadSandboxImage
	}
	id, err := prepare(ctx)
	if err != nil {
		return "", err
	}
	s.sandbox.found(id)
	log.G(ctx).WithFields(log.Fields{"image": s.sandbox.reference, "imageID": id}).Debug("sandbox image present")
	return s.sandbox.reference, nil
}

// ReloadSandboxImage is EnsureSandboxImage after the engine said that the image
// is not there, because somebody pruned it: it looks again and brings it back.
func (s *Service) ReloadSandboxImage(ctx context.Context) (string, error) {
	s.sandbox.lost()
	return s.EnsureSandboxImage(ctx)
}

// loadSandboxImage loads the built-in image. It does so even when the name is
// taken: the load costs next to nothing when the engine has the image already,
// and whatever had the name, an older version's image or somebody else's, loses
// it.
func (s *Service) loadSandboxImage(ctx context.Context) (string, error) {
	features, err := s.engine.Features(ctx)
	if err != nil {
		return "", err
	}
	archive, err := pause.Archive(features.Arch)
	if err != nil {
		return "", fmt.Errorf("the built-in sandbox image: %w", err)
	}
	if err := s.engine.LoadImage(ctx, bytes.NewReader(archive)); err != nil {
		return "", fmt.Errorf("load the built-in sandbox image: %w", err)
	}
	inspect, err := s.inspect(ctx, s.sandbox.reference)
	if err != nil {
		return "", fmt.Errorf("look at the built-in sandbox image after its load: %w", err)
	}
	return inspect.ID, nil
}

// pullSandboxImage finds the configured image, or pulls it.
func (s *Service) pullSandboxImage(ctx context.Context) (string, error) {
	inspect, err := s.inspect(ctx, s.sandbox.reference)
	if err == nil {
		return inspect.ID, nil
	}
	if !errdefs.IsNotFound(err) {
		return "", err
	}
	spec := &runtimeapi.ImageSpec{Image: s.sandbox.reference}
	ref, err := pullReference(spec)
	if err != nil {
		return "", err
	}
	auth, err := nodeCredentials(s.credentialsFile, ref)
	if err != nil {
		return "", err
	}
	id, err := s.Pull(ctx, spec, auth)
	if err != nil {
		return "", fmt.Errorf("the sandbox image is not present (load it by hand, or choose another with --pod-infra-container-image): %w", err)
	}
	return id, nil
}
