package build

import (
	"context"
	"path/filepath"

	"github.com/criadapter/criadapter/test/gomod"
)

// AddKubeletCore builds the kubelet core of this tree in a directory, and adds it to the programs.
func (p *Programs) AddKubeletCore(ctx context.Context, dir string) error {
	root, err := gomod.Root(ctx)
	if err != nil {
		return err
	}
	p.KubeletCore = filepath.Join(dir, "kubelet-core")
	_, err = gomod.Command(ctx, root, []string{"CGO_ENABLED=0"}, "build", "-o", p.KubeletCore, "./cmd/kubelet-core")
	return err
}
