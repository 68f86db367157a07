package main

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/pace"
)

const (
	// prunePause is the pause between two prunes.
	prunePause = time.Second
	// pruneTimeout bounds one prune.
	pruneTimeout = time.Minute
)

// pruned counts what prunes removed.
type pruned struct{ containers, volumes, images int }

// prune acts during the fault like a cron job with docker system prune --force --volumes. Containers that were created
// and not started yet are removed, too.
func (v victims) prune(ctx context.Context, f fault) (err error) {
	api, err := client.New(client.WithHost(v.engine.Host()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	var sum pruned
	defer func() {
		say("pruned: %d containers, %d volumes, %d images", sum.containers, sum.volumes, sum.images)
	}()
	for end := time.Now().Add(f.Lasts); time.Now().Before(end) && ctx.Err() == nil; _ = pace.Sleep(ctx, prunePause) {
		if err := sum.pruneOnce(context.WithoutCancel(ctx), api); err != nil { // a prune is not left half done
			return err
		}
	}
	return nil
}

// pruneOnce prunes in the order of docker system prune. The rig's engine has no networks and no build cache to prune.
func (p *pruned) pruneOnce(ctx context.Context, api *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	containers, err := api.ContainerPrune(ctx, client.ContainerPruneOptions{})
	if err != nil {
		return err
	}
	volumes, err := api.VolumePrune(ctx, client.VolumePruneOptions{})
	if err != nil {
		return err
	}
	images, err := api.ImagePrune(ctx, client.ImagePruneOptions{})
	if err != nil {
		return err
	}
	p.containers += len(containers.Report.ContainersDeleted)
	p.volumes += len(volumes.Report.VolumesDeleted)
	p.images += len(images.Report.ImagesDeleted)
	return nil
}
