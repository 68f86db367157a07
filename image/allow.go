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
