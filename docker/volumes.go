package docker

import (
	"context"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

// InspectVolume returns a volume with its options.
func (c *Client) InspectVolume(ctx context.Context, name string) (volume.Volume, error) {
	var result client.VolumeInspectResult
	err := c.short(ctx, op{verb: "inspect volume", kind: aVolume, object: name},
		func(ctx context.Context, s *session) (err error) {
			result, err = s.api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
			return err
		})
	return result.Volume, err
}
