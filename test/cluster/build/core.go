package build

import (
	"context"
	"os/exec"
	"path/filepath"
)

// AddKubeletCore builds the kubelet core of this tree in a directory, and adds it to the programs.
func (p *Programs) AddKubeletCore(ctx context.Context, dir string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	p.KubeletCore = filepath.Join(dir, "kubelet-core")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", p.KubeletCore, "./cmd/kubelet-core")
	cmd.Dir = root
	_, err = output(cmd)
	return err
}
