package main

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// mobyImages are the images that the engine's tests look for. Here all are one image: a shell with busybox.
var mobyImages = []string{
	"busybox:latest", "busybox:glibc", "debian:trixie-slim", "hello-world:frozen", "hello-world:amd64",
	"hello-world:arm64",
}

// loadMobyImages gives the engine the images of its tests.
func loadMobyImages(ctx context.Context, host string, env rigenv.Env) error {
	engine, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer engine.Close()
	ref := env.Image(images.Moby)
	pull, err := engine.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	for _, name := range mobyImages {
		if _, err := engine.ImageTag(ctx, client.ImageTagOptions{Source: ref, Target: name}); err != nil {
			return fmt.Errorf("tag %s: %w", name, err)
		}
	}
	_, err = engine.ImageRemove(ctx, ref, client.ImageRemoveOptions{})
	return err
}
