package image

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image/registry"
)

// Pull pulls the image that spec names and returns its id. Concurrent pulls of one image with the same credentials
// share one transfer. Each caller waits until its own context ends. The transfer is cancelled when its last caller is
// gone.
//
// A pull without progress for the configured deadline fails with context.DeadlineExceeded. The deadline is sixty times
// as long while the engine delays the pull's layers for other pulls of this service, or unpacks them silently. An
// unreachable registry gives ErrRegistryUnavailable of the CRI API. The error begins with it, because the kubelet shows
// it as the container's waiting reason. An image that the policy refuses gives ErrSignatureValidationFailed in the same
// way, and the engine pulls nothing. The text of an error has no URL queries, because a query may hold a signature.
func (s *Service) Pull(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (string, error) {
	ref, err := pullReference(spec)
	if err != nil {
		return "", err
	}
	if err := s.checkHandler(ctx, spec.GetRuntimeHandler()); err != nil {
		return "", err
	}
	credentials, err := credentials(ctx, auth, ref)
	if err != nil {
		return "", err
	}
	return s.pulls.do(ctx, newPullKey(ref.String(), credentials), func(ctx context.Context) (string, error) {
		id, err := s.transfer(ctx, ref, credentials)
		if err == nil {
			s.sweepSignatures(ctx)
		}
		return id, err
	})
}

// checkHandler refuses a runtime handler without a runtime in the engine, as ImageSpec.runtime_handler demands. Images
// do not depend on the handler.
func (s *Service) checkHandler(ctx context.Context, handler string) error {
	if handler == "" {
		return nil
	}
	features, err := s.engine.Features(ctx)
	if err != nil {
		return err
	}
	if _, ok := features.Runtime(handler); ok {
		return nil
	}
	return fmt.Errorf("image.runtime_handler %q is not one of the engine's runtimes %v: %w", handler, features.Runtimes,
		errdefs.ErrInvalidArgument)
}

// transfer pulls an image and watches its progress.
func (s *Service) transfer(ctx context.Context, ref reference.Named, auth *docker.Auth) (_ string, err error) {
	ctx, observed := s.observePull(ctx)
	defer func() {
		err = withoutQueries(err)
		observed(err)
	}()
	start := time.Now()
	s.transfers.RLock()
	defer s.transfers.RUnlock()
	trusted, err := s.trust.Resolve(ctx, ref, registry.Credentials(auth))
	if err != nil {
		return "", err
	}
	if err := s.fetch(ctx, trusted, auth); err != nil {
		return "", err
	}
	if err := s.tagPulled(ctx, trusted, ref); err != nil {
		return "", err
	}
	pulled, err := s.images.refresh(ctx, ref.String())
	if err != nil {
		return "", fmt.Errorf("inspect the pulled image %q: %w", ref, err)
	}
	log.G(ctx).
		WithFields(
			log.Fields{"image": ref.String(), "imageID": pulled.id(),
				"duration": time.Since(start).Round(time.Millisecond)}).
		Debug("image pulled")
	return pulled.id(), nil
}

// fetch has the engine pull an image.
func (s *Service) fetch(ctx context.Context, ref reference.Named, auth *docker.Auth) error {
	watched, pull := s.watch.begin(ctx)
	defer pull.end()
	err := s.engine.PullImage(watched, ref.String(), docker.PullOptions{Auth: auth, Progress: pull.progress})
	if err == nil {
		return nil
	}
	if cause := context.Cause(watched); cause != nil {
		return fmt.Errorf("pull image %s: %w", ref, cause)
	}
	return pullError(err)
}

// tagPulled adds the tag in ref to an image that was pulled by its verified digest.
func (s *Service) tagPulled(ctx context.Context, pulled, ref reference.Named) error {
	if _, byDigest := ref.(reference.Digested); byDigest || pulled == ref {
		return nil
	}
	if err := s.engine.TagImage(ctx, pulled.String(), ref.String()); err != nil {
		return fmt.Errorf("tag the pulled image %s: %w", pulled, err)
	}
	return nil
}
