package image

import (
	"bytes"
	"cmp"
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

// sandboxImage is the image of every pod's sandbox.
type sandboxImage struct {
	// reference is the image's name, and name its normalName.
	reference, name string
	// builtIn says that this program contains the image.
	builtIn bool
	// preparing serializes loads and pulls of the image.
	preparing turn

	mu sync.Mutex
	// present says that the engine had the image at the last check.
	present bool
	// id is the image's id, empty before the first check.
	id string
}

// CheckSandboxImage returns the error that New would have about Options.SandboxImage.
func CheckSandboxImage(configured string) error {
	if configured == "" {
		return nil
	}
	if _, err := reference.ParseAnyReference(configured); err != nil {
		return fmt.Errorf("%q is not an image's name: %v: %w", configured, err, errdefs.ErrInvalidArgument)
	}
	return nil
}

func newSandboxImage(configured string) (*sandboxImage, error) {
	if err := CheckSandboxImage(configured); err != nil {
		return nil, err
	}
	name := cmp.Or(configured, pause.Reference)
	return &sandboxImage{
		reference: name, name: normalName(name), builtIn: configured == "", preparing: newTurn(),
	}, nil
}

// matches reports whether e is the sandbox image, under any name.
func (i *sandboxImage) matches(e *entry) bool {
	return e.id() == i.reference || e.id() == i.lastID() || slices.Contains(e.names, i.name)
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

// lost records that the image is missing. It keeps the id, because the restored image has the same id.
func (i *sandboxImage) lost() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.present = false
}

// EnsureSandboxImage makes sure that the engine has the sandbox image and returns the reference for sandboxes. It loads
// the built-in image. It pulls a configured image with the node's credentials if it is missing. After the first check,
// the answer is cached until ReloadSandboxImage.
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

// ReloadSandboxImage is EnsureSandboxImage after the engine reported that the image is missing, for example after a
// prune. It checks again and restores the image.
func (s *Service) ReloadSandboxImage(ctx context.Context) (string, error) {
	s.sandbox.lost()
	return s.EnsureSandboxImage(ctx)
}

// loadSandboxImage loads the built-in image, even if another image has its name. Then the other image, for example of
// an older version, loses the name. The load costs next to nothing if the engine has the image.
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
	loaded, err := s.images.refresh(ctx, s.sandbox.reference)
	if err != nil {
		return "", fmt.Errorf("inspect the loaded built-in sandbox image: %w", err)
	}
	return loaded.id(), nil
}

// pullSandboxImage finds the configured image, or pulls it.
func (s *Service) pullSandboxImage(ctx context.Context) (string, error) {
	present, err := s.images.refresh(ctx, s.sandbox.reference)
	if err == nil {
		return present.id(), s.Allow(ctx, present.id(), s.sandbox.reference)
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
		return "", fmt.Errorf(
			"the sandbox image is not present (load it by hand, or choose another with "+
				"--pod-infra-container-image): %w", err)
	}
	return id, nil
}
