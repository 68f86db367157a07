package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Recipe is an image of programs that were built elsewhere.
type Recipe struct {
	// Name is the image's name, without a registry and a tag.
	Name string
	// Files maps paths in the image to paths on this host. The files are executable in the image.
	Files map[string]string
	// Base is the path of a tar archive with a file system, which the image has below its files. It may be empty.
	Base string
	// Entrypoint is the command.
	Entrypoint []string
}

// Cluster returns the images of recipes by their names, and criadapter's sandbox image under kubeadm's name. Like
// Catalog it makes them once. The paths in the recipes must name their content, as paths in the cache do.
func Cluster(ctx context.Context, cacheDir string, recipes []Recipe) (map[string]v1.Image, error) {
	host := ThisHost()
	key, err := host.cacheKey(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Append(nil, recipes))
	return openOrMake(cacheDir, "cluster-"+key+"-"+hex.EncodeToString(sum[:6]), func() (map[string]v1.Image, error) {
		k := &kitchen{architecture: runtime.GOARCH, images: map[string]v1.Image{}}
		bases := map[string]v1.Layer{}
		for _, recipe := range recipes {
			if err := k.follow(recipe, bases); err != nil {
				return nil, fmt.Errorf("image %s: %w", recipe.Name, err)
			}
		}
		if err := k.pause(); err != nil {
			return nil, err
		}
		return k.images, nil
	})
}

// follow makes the image of a recipe. bases has the layers of archives that earlier recipes used.
func (k *kitchen) follow(recipe Recipe, bases map[string]v1.Layer) error {
	var layers []v1.Layer
	var entries []entry
	if recipe.Base == "" {
		entries = append(accounts("", ""), directory("tmp", 0o1777))
	} else {
		if bases[recipe.Base] == nil {
			layer, err := tarball.LayerFromFile(recipe.Base, tarball.WithCompressedCaching)
			if err != nil {
				return err
			}
			bases[recipe.Base] = layer
		}
		layers = append(layers, bases[recipe.Base])
	}
	for inside, path := range recipe.Files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries = append(entries, file(inside, 0o755, content))
	}
	layer, err := newLayer(entries...)
	if err != nil {
		return err
	}
	return k.add(v1.Config{Entrypoint: recipe.Entrypoint}, append(layers, layer), recipe.Name)
}
