package build

import (
	"context"
	"os/exec"
)

// KubeletCore builds the kubelet core of this tree, to a path.
func KubeletCore(ctx context.Context, path string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/kubelet-core")
	cmd.Dir = root
	_, err = output(cmd)
	return err
}
