package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/test/program"
)

// client calls the cluster's API server.
type client struct {
	plan       plan
	kubeconfig string // file
}

func (c client) kubectl(ctx context.Context, args ...string) (string, error) {
	return program.Output(ctx, "", []string{"KUBECONFIG=" + c.kubeconfig}, c.plan.Programs.Kubectl, args...)
}

// apply applies a manifest, which stays as NAME.yaml in the cluster's directory.
func (c client) apply(ctx context.Context, name, manifest string) error {
	path := filepath.Join(c.plan.Dir, name+".yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o644); err != nil {
		return err
	}
	_, err := c.kubectl(ctx, "apply", "-f", path)
	return err
}
