package debian

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/cniplugins"
	"github.com/criadapter/criadapter/test/rig/images"
)

// PodImage is the image that FillShare leaves in hello.tar, and that the pods of its manifests run.
const PodImage = "criadapter.local/hello:1"

// epoch is the time of every release, so that two builds of the same sources are equal.
const epoch = "SOURCE_DATE_EPOCH=1700000000"

// Release runs the command of `make release` on the sources in a directory, for one architecture.
func Release(ctx context.Context, source, version, architecture, out string) error {
	_, err := program.Output(ctx, source, []string{epoch}, "go", "run", "./packaging/release", "-version", "v"+version,
		"-arch", architecture, "-out", out)
	return err
}

// FillShare fills the directory that a machine sees at /mnt with the parts of a node beside criadapter: CNI plugins, a
// network (10-pods.conflist), crictl, an image (hello.tar) and two manifests. The pod web is in the pod network, and
// the pod agent in the host's network. The architecture is a value of GOARCH.
func FillShare(ctx context.Context, share, architecture string) error {
	plugins, err := cniplugins.Build(ctx, architecture)
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(share, "plugins"), os.DirFS(plugins)); err != nil {
		return err
	}
	crictl, err := build.Crictl(ctx, architecture)
	if err != nil {
		return err
	}
	if err := program.CopyFile(crictl, filepath.Join(share, "crictl")); err != nil {
		return err
	}
	if err := writeImage(ctx, architecture, filepath.Join(share, "hello.tar")); err != nil {
		return err
	}
	return writeNode(share)
}

func writeImage(ctx context.Context, architecture, path string) error {
	image, err := images.Hello(ctx, architecture)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(PodImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, image)
}

// writeNode writes the network and the pods of the node.
func writeNode(share string) error {
	conflist, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": "pods", "plugins": []any{
		map[string]any{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": map[string]any{
			"type": "host-local", "ranges": [][]map[string]string{{{"subnet": "10.88.0.0/24"}}}}},
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(share, "10-pods.conflist"), conflist, 0o644); err != nil {
		return err
	}
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  hostNetwork: %t
  containers:
    - {name: hello, image: %q, imagePullPolicy: Never}
`
	for name, hostNetwork := range map[string]bool{"web": false, "agent": true} {
		manifest := fmt.Sprintf(pod, name, hostNetwork, PodImage)
		if err := os.WriteFile(filepath.Join(share, name+".yaml"), []byte(manifest), 0o644); err != nil {
			return err
		}
	}
	return nil
}
