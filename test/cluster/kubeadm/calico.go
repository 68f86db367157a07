package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/rig/images"
)

// prepareCalico adds Calico's module to the plan.
func prepareCalico(ctx context.Context, p *plan) (err error) {
	p.Programs.Calico.Module, err = build.CalicoModule(ctx)
	return err
}

// calicoImages are the images that Calico's manifest names, keyed repository:tag. The node's image has the files of
// Calico's own image, whose scripts start the daemons below Debian's runit.
func calicoImages(ctx context.Context, cacheDir string, all plan) (map[string]v1.Image, error) {
	p, base := all.Programs.Calico, all.Base
	files, err := filesBelow(filepath.Join(p.Module, "node", "filesystem"))
	if err != nil {
		return nil, err
	}
	// bin and sbin are links to directories of usr in Debian. A file below them would replace the link.
	node := map[string]string{"usr/bin/calico-node": p.Node, "usr/bin/mountns": p.MountNS}
	for inside, path := range files {
		if strings.HasPrefix(inside, "sbin/") {
			inside = "usr/" + inside
		}
		node[inside] = path
	}
	const plugins = "opt/cni/bin/"
	return images.Cluster(ctx, cacheDir, []images.Recipe{
		{Name: "calico/node:" + addonTag, Base: base, Files: node, Entrypoint: []string{"start_runit"}},
		{Name: "calico/cni:" + addonTag, Files: map[string]string{plugins + "calico": p.Plugin,
			plugins + "calico-ipam": p.Plugin, plugins + "install": p.Installer, plugins + "portmap": p.Portmap,
			plugins + "bandwidth": p.Bandwidth}},
		{Name: "calico/kube-controllers:" + addonTag, Files: map[string]string{
			"usr/bin/kube-controllers": p.Controllers, "usr/bin/check-status": p.CheckStatus},
			Entrypoint: []string{"/usr/bin/kube-controllers"}},
	})
}

// calicoManifest is the manifest of Calico's release for nodes without BGP, with images from the registry.
func calicoManifest(_ context.Context, p plan) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.Programs.Calico.Module, "manifests", "calico-vxlan.yaml"))
	return imageOf(string(text), "calico/[a-z-]+"), err
}

// filesBelow returns the paths of a directory's files, keyed by their paths in it.
func filesBelow(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		files[inside] = path
		return err
	})
	return files, err
}
