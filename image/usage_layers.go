package image

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/criadapter/criadapter/internal/mountquote"
)

// layerSizes measures a storage. It measures a committed layer, which never changes, only once. It is not safe for
// concurrent use.
type layerSizes struct {
	// known has the sizes of committed layers by directory.
	known map[string]footprint
}

// measure walks all directories of a storage.
func (l *layerSizes) measure(ctx context.Context, place storage) (usage, error) {
	walk := walk{
		ctx: ctx, links: make(map[inode]bool), containerLayers: containerLayers(place.mounts),
		committed: committedLayers(place, l.known), known: l.known, measured: make(map[string]footprint),
	}
	for _, dir := range place.layers {
		if err := walk.dir(dir); err != nil {
			return usage{}, err
		}
	}
	l.known = walk.measured
	measured := usage{taken: time.Now(), images: walk.images, containers: walk.containers}
	if place.mounts == "" {
		measured.containers = measured.images
	}
	return measured, nil
}

// committedLayers returns the directories of layers that never change, as far as the files show it. A layer stays
// committed until it is removed, and its name is never reused.
func committedLayers(place storage, known map[string]footprint) map[string]bool {
	layers := make(map[string]bool, len(known))
	for dir := range known {
		layers[dir] = true
	}
	if len(place.layers) == 0 {
		return layers
	}
	if place.mounts != "" {
		addRegistered(layers, filepath.Dir(place.mounts), place.layers[0])
		return layers
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("overlay"))
	if err == nil { // otherwise all layers are walked
		addParents(layers, mounts, filepath.Join(place.layers[0], "snapshots"))
	}
	return layers
}

// addRegistered adds the image layers of a graph driver. The engine registers a complete layer in a directory with the
// name of the layer's directory.
func addRegistered(layers map[string]bool, layerdb, dir string) {
	records, err := filepath.Glob(filepath.Join(layerdb, "sha256", "*", "cache-id"))
	if err != nil {
		return
	}
	for _, record := range records {
		if name, err := os.ReadFile(record); err == nil && len(name) > 0 {
			layers[filepath.Join(dir, strings.TrimSpace(string(name)))] = true
		}
	}
}

// addParents adds the layers below each mounted layer. containerd never puts a layer above a layer that can still
// change. It names layers by numbers and reuses none.
func addParents(layers map[string]bool, mounts []*mountinfo.Info, snapshots string) {
	for _, mount := range mounts {
		if !strings.Contains(mountquote.Unquote(mount.VFSOptions), "upperdir="+snapshots+"/") {
			continue
		}
		for option := range strings.SplitSeq(mount.VFSOptions, ",") {
			key, dirs, _ := strings.Cut(option, "=")
			if key != "lowerdir" && key != "lowerdir+" {
				continue
			}
			for dir := range strings.SplitSeq(dirs, ":") { // absolute, or below snapshots
				if layer, ok := strings.CutSuffix(dir, "/fs"); ok {
					layers[filepath.Join(snapshots, filepath.Base(layer))] = true
				}
			}
		}
	}
}
