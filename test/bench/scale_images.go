package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// measureManyImages has each server pull many images, which differ in a label, and measures the requests of a kubelet
// about images.
func (b *bench) measureManyImages(ctx context.Context, crowds []*crowd) error {
	n := b.plan.images
	step, err := b.beginStep(ctx, fmt.Sprintf("%d images", n), crowds)
	if err != nil {
		return err
	}
	names, err := b.pushImages(ctx, n)
	if err != nil {
		return err
	}
	if err := step.time(crowds, "mean of PullImage, four at a time", n, func(c *crowd) error {
		return c.pullAll(ctx, names)
	}); err != nil {
		return err
	}
	for _, q := range []question{
		{rowImages, b.plan.stats, func(c *crowd, ctx context.Context) error { return c.listsImages(ctx, n) }},
		{rowImageStatus, b.plan.stats, func(c *crowd, ctx context.Context) error {
			return c.imageStatus(ctx, names[n-1])
		}},
		{"ImageFsInfo", b.plan.stats, (*crowd).imageFsInfo},
	} {
		if err := b.ask(ctx, step.Table, crowds, q); err != nil {
			return err
		}
	}
	b.result.compare(step.Table, nameWithOCI,
		goal{step.goal("list-images-to-containerd"), rowImages, nameContainerd, 1})
	if err := step.weigh(crowds); err != nil {
		return err
	}
	if err := b.measureSomeLives(ctx, step, crowds); err != nil {
		return err
	}
	return b.measureStarts(ctx, step, crowds, func(ctx context.Context, engine *client.Client) error {
		_, err := engine.ImageList(ctx, client.ImageListOptions{})
		return err
	})
}

// pushImages uploads n images with the layers of the usual image, and returns their names.
func (b *bench) pushImages(ctx context.Context, n int) ([]string, error) {
	usual, err := name.ParseReference(b.image)
	if err != nil {
		return nil, err
	}
	base, err := remote.Image(usual, remote.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	file, err := base.ConfigFile()
	if err != nil {
		return nil, err
	}
	names := make([]string, n)
	var group errgroup.Group
	group.SetLimit(4)
	for i := range names {
		names[i] = b.env.Image(fmt.Sprintf("test/many:%d", i))
		group.Go(func() error { return pushVariant(ctx, names[i], base, *file.DeepCopy()) })
	}
	return names, group.Wait()
}

// pushVariant uploads an image with another label than all others.
func pushVariant(ctx context.Context, ref string, base v1.Image, config v1.ConfigFile) error {
	to, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	config.Config.Labels = map[string]string{"name": ref}
	image, err := mutate.ConfigFile(base, &config)
	if err != nil {
		return err
	}
	return remote.Write(to, image, remote.WithContext(ctx))
}

func (c *crowd) pullAll(ctx context.Context, names []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, name := range names {
		group.Go(func() error {
			_, err := c.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			return err
		})
	}
	return group.Wait()
}

// listsImages asks for all images. It fails if there are fewer than least.
func (c *crowd) listsImages(ctx context.Context, least int) error {
	answer, err := c.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err == nil && len(answer.GetImages()) < least {
		err = fmt.Errorf("%d images are listed, want at least %d", len(answer.GetImages()), least)
	}
	return err
}

func (c *crowd) imageFsInfo(ctx context.Context) error {
	_, err := c.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	return err
}
