package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/debian/machine"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// stateDir has the files of a running cluster, for its users and for the next command.
const stateDir = "build/cluster"

// The files in stateDir.
const (
	planFile       = stateDir + "/plan.json"
	kubeconfigFile = stateDir + "/kubeconfig"
	kubectlFile    = stateDir + "/kubectl"
	lockFile       = stateDir + "/keeper.pid"
	logFile        = stateDir + "/keeper.log"
	nodesFile      = stateDir + "/nodes.json"
)

// plan is the keeper's input. Making a plan needs Go modules and Debian's packages, which the keeper cannot reach.
type plan struct {
	Programs build.Programs
	// Root is the file system of the machines, and Dir a directory for the cluster's writes.
	Root, Dir string
	// Base is the file system of images that set up a node's network.
	Base string
	// CiliumBase is the file system of Cilium's image.
	CiliumBase string
	// Flannel, Metrics and Multus are the manifests of the add-ons.
	Flannel, Metrics, Multus string
	// Node2 is the runtime of the second node, and Family names the cluster's addresses. Network is the add-on that
	// connects the pods. Empty means the default of podNetworkOf.
	Node2, Family, Network string
}

// networks returns the networks of the cluster, the primary one first. The command line has checked the family.
func (p plan) networks() []network {
	networks, _ := networksOf(p.Family)
	return networks
}

// share is the directory that the machines see at /mnt.
func (p plan) share() string { return filepath.Join(p.Dir, "share") }

// machineDir is the directory of a node's machine.
func (p plan) machineDir(name string) string { return filepath.Join(p.Dir, name) }

func readPlan() (plan, error) { return program.ReadJSON[plan](planFile) }

// missingParts names what prepare would build or download.
func missingParts(ctx context.Context, o options) ([]string, error) {
	missing, err := o.missingPrograms(ctx)
	if err != nil {
		return nil, err
	}
	variant, err := engine.Named(newest)
	if err != nil {
		return nil, err
	}
	if has, err := variant.Cached(); err != nil {
		return nil, err
	} else if !has {
		missing = append(missing, "the engine "+newest)
	}
	network, err := podNetworkOf(o.network, o.family)
	if err != nil {
		return nil, err
	}
	for _, key := range append([]string{machine.RootKey, baseKey}, network.parts...) {
		has, err := cache.Has(key)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, key)
		}
	}
	return missing, nil
}

// prepare builds or fetches all that a cluster is made of, and writes the plan.
func prepare(ctx context.Context, o options) (p plan, err error) {
	p.Node2, p.Family, p.Network = o.node2, o.family, o.network
	if p.Programs, err = o.programs(ctx); err != nil {
		return p, err
	}
	if prepare := p.podNetwork().prepare; prepare != nil {
		if err = prepare(ctx, &p); err != nil {
			return p, err
		}
	}
	for _, part := range []struct {
		path *string
		make func(context.Context) (string, error)
	}{
		{&p.Root, machine.Root}, {&p.Base, networkBase}, {&p.Flannel, build.FlannelManifest},
		{&p.Metrics, build.MetricsManifest}, {&p.Multus, build.MultusManifest},
	} {
		if *part.path, err = part.make(ctx); err != nil {
			return p, err
		}
	}
	if _, err = p.images(ctx); err != nil {
		return p, err
	}
	if p.Dir, err = os.MkdirTemp("", "criadapter-cluster-"); err != nil {
		return p, err
	}
	if err := program.WriteJSON(planFile, p); err != nil {
		return p, err
	}
	return p, p.fillShare(ctx)
}

// version is the release of the tree that the nodes install.
const version = "1.0.0"

// fillShare puts the node's programs and packages into the share.
func (p plan) fillShare(ctx context.Context) error {
	share := p.share()
	if err := debian.Release(ctx, ".", version, runtime.GOARCH, filepath.Join(share, version)); err != nil {
		return err
	}
	if err := debian.FillShare(ctx, share, runtime.GOARCH); err != nil {
		return err
	}
	for _, node := range p.nodes() {
		dir := filepath.Join(share, node.name)
		if err := debian.FillEngine(ctx, node.engine, runtime.GOARCH, engineSettings(), dir); err != nil {
			return err
		}
	}
	for name, path := range map[string]string{"kubeadm": p.Programs.Kubeadm, "kubelet": p.Programs.Kubelet,
		"kubectl": p.Programs.Kubectl} {
		if err := program.CopyFile(path, filepath.Join(share, "bin", name)); err != nil {
			return err
		}
	}
	if minikube := p.Programs.Minikube; minikube != "" {
		if err := program.CopyFile(minikube, filepath.Join(share, "minikube")); err != nil {
			return err
		}
	}
	if err := program.BuildStatic(ctx, filepath.Join(share, "csidriver"), "./test/cluster/csidriver"); err != nil {
		return err
	}
	return debian.RuntimeWrapper(ctx, share)
}
