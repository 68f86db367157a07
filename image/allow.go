package image

import (
	"context"

	"github.com/criadapter/criadapter/image/trust"
)

// Allow returns nil if the policy allows containers of the image with this id. name is the client's name for the image,
// and may be the id. A refusal is ErrSignatureValidationFailed of the CRI API. Allow fails with ErrNotFound if the
// image is not present.
func (s *Service) Allow(ctx context.Context, id, name string) error {
	if s.trust == nil {
		return nil
	}
	e, err := s.ofID(ctx, id)
	if err != nil {
		return err
	}
	return s.trust.Allow(ctx, trust.Image{ID: id, Name: name, Names: e.names})
}

// sweepSignatures drops the kept signatures of images that are gone. It does nothing during a transfer, because a
// transfer keeps the signatures of an image before the image is present. The end of the last transfer sweeps, too.
func (s *Service) sweepSignatures(ctx context.Context) {
	if s.trust == nil || !s.transfers.TryLock() {
		return
	}
	defer s.transfers.Unlock()
	now := s.images.now.Load()
	if !now.complete {
		return
	}
	var names []string
	for _, e := range now.byID {
		if e.failed { // its digests may be incomplete
			return
		}
		names = append(names, e.names...)
	}
	s.trust.Keep(ctx, names)
}
