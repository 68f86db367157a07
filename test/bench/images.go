package main

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Rows of the table of images, beside rowImages.
const (
	rowImageStatus = "ImageStatus"
	rowPullPresent = "PullImage of an image that is there"
)

// measureImages times the requests of a kubelet about images, without pods.
func (b *bench) measureImages(ctx context.Context) error {
	var crowds []*crowd
	for _, s := range b.servers {
		crowds = append(crowds, &crowd{criServer: s})
	}
	for _, q := range []question{
		{rowImages, b.plan.statuses, (*crowd).listImages},
		{rowImageStatus, b.plan.statuses, func(c *crowd, ctx context.Context) error {
			return c.imageStatus(ctx, b.image)
		}},
		{rowPullPresent, b.plan.stats, func(c *crowd, ctx context.Context) error { return c.pull(ctx, b.image) }},
	} {
		if err := b.ask(ctx, &b.result.Images, crowds, q); err != nil {
			return err
		}
	}
	b.result.compare(&b.result.Images, nameCriadapter,
		goal{"list-images-to-containerd", rowImages, nameContainerd, 1.0})
	return nil
}

func (c *crowd) imageStatus(ctx context.Context, name string) error {
	_, err := c.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	return err
}
