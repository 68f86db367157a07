package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const helloImage = "test/hello:latest"

// Hello makes the one image of the catalogue that needs nothing of the host but the go command: a small
// static service. The architecture is a value of GOARCH.
func Hello(ctx context.Context, architecture string) (v1.Image, error) {
	program, err := compile(ctx, "hello", architecture)
	if err != nil {
		return nil, err
	}
	k := &kitchen{architecture: architecture, images: map[string]v1.Image{},
		programs: map[string][]byte{"hello": program}}
	if err := k.hello(); err != nil {
		return nil, err
	}
	return k.images[helloImage], nil
}
