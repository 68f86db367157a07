// Package build makes the programs of a Kubernetes cluster and keeps each in the cache (see package test/rig/cache).
// The modules in test/cluster/tools pin the versions. The first builds take about ten minutes, two gigabytes of memory
// and the Go module proxy.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// Programs are the paths of a cluster's programs.
type Programs struct {
	Etcd, APIServer, ControllerManager, Scheduler, Kubectl, Kubelet string
	// KubeletCore is built from this tree and never cached, so All leaves it empty.
	KubeletCore string
	// Specs is a test suite of Kubernetes, Ginkgo runs it, and Agnhost is in most of its images. All leaves them empty,
	// too.
	Specs, Ginkgo, Agnhost string
	// A kubeadm cluster needs these in addition. All leaves them empty, too.
	Kubeadm, KubeProxy, CoreDNS, Flanneld, FlannelConfig, FlannelPlugin, MetricsServer             string
	DevicePlugin, DRADriver, DRAExample, KubeRouter, Multus, MultusConfig, MultusInstall, Passthru string
	// A cluster with the network of Calico or Cilium needs these in addition. All leaves them empty, too.
	Calico Calico
	Cilium Cilium
	// Minikube makes a cluster of one node. All leaves it empty, too.
	Minikube string
	// The certified suite needs these in addition. All leaves them empty, too.
	Hydrophone, ConformanceRunner, SampleServer string
	// Share is the directory that an emulated node sees at /mnt (package test/cluster/emulated). It is empty for other
	// nodes.
	Share string
}

// Version is the version of Kubernetes that test/cluster/tools/kubernetes/go.mod requires. A test compares the two.
const Version = "v1.36.3"

// kubernetes and etcd are the modules that are built.
const (
	kubernetes = "k8s.io/kubernetes"
	etcd       = "go.etcd.io/etcd/server/v3"
)

// kubelet is the name of the program that can be built in several releases.
const kubelet = "kubelet"

// program is a program to build: its name, its module's directory in test/cluster/tools, its import path, linker flags
// and build tags. A program with a version has no such directory: its own module pins the versions of its dependencies.
type program struct {
	name, tools, pkg, linkerFlags, tags, version string
	// isTest says that the program is the compiled tests of the package, and cgo that it has parts in C.
	isTest, cgo bool
	path        func(*Programs) *string
}

// programs returns the programs in the order of their builds. The longest build is the last one.
func programs() []program {
	list := []program{
		{name: "etcd", tools: "etcd", pkg: etcd, linkerFlags: "-s -w", path: func(p *Programs) *string {
			return &p.Etcd
		}},
		{name: "kube-apiserver", path: func(p *Programs) *string { return &p.APIServer }},
		{name: "kube-controller-manager", path: func(p *Programs) *string { return &p.ControllerManager }},
		{name: "kube-scheduler", path: func(p *Programs) *string { return &p.Scheduler }},
		{name: "kubectl", path: func(p *Programs) *string { return &p.Kubectl }},
		{name: kubelet, path: func(p *Programs) *string { return &p.Kubelet }},
	}
	for i := range list[1:] {
		one := &list[i+1]
		one.tools, one.pkg, one.linkerFlags = "kubernetes", kubernetes+"/cmd/"+one.name, "-s -w "+stamps(Version)
	}
	return list
}

// stamps returns the linker flags that set the version of a Kubernetes program. The programs of a cluster check each
// other's version. The commit is made up, because a module does not contain its commit.
func stamps(version string) string {
	const variable = "k8s.io/component-base/version."
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	values := [][2]string{
		{"gitVersion", version}, {"gitMajor", numbers[0]}, {"gitMinor", numbers[1]},
		{"gitCommit", "module-" + version}, {"gitTreeState", "clean"},
		{"buildDate", "1970-01-01T00:00:00Z"}, // a fixed date, so that each build makes the same program
	}
	var flags strings.Builder
	for _, value := range values {
		fmt.Fprintf(&flags, "-X %s%s=%s ", variable, value[0], value[1])
	}
	return strings.TrimSpace(flags.String())
}

// All returns the programs. It builds missing ones one after the other, and writes lines about each build to progress.
// It must run in criadapter's source tree.
func All(ctx context.Context, progress io.Writer) (Programs, error) {
	return fill(ctx, programs(), progress)
}

// fill is All for the programs of a list.
func fill(ctx context.Context, list []program, progress io.Writer) (Programs, error) {
	var made Programs
	root, err := gomod.Root(ctx)
	if err != nil {
		return made, err
	}
	for i, one := range list {
		key, err := one.key(root)
		if err != nil {
			return made, err
		}
		dir, err := cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
			fmt.Fprintf(progress, "building %s, %d of %d …\n", one.name, i+1, len(list))
			began := time.Now()
			if err := one.build(ctx, root, dir); err != nil {
				return err
			}
			fmt.Fprintf(progress, "built %s in %s\n", one.name, time.Since(began).Round(time.Second))
			return nil
		})
		if err != nil {
			return made, fmt.Errorf("build %s: %w", one.name, err)
		}
		*one.path(&made) = filepath.Join(dir, one.name)
	}
	return made, nil
}

// Missing returns the names of the programs that the cache does not have.
func Missing(ctx context.Context) ([]string, error) { return missing(ctx, programs()) }

func missing(ctx context.Context, list []program) ([]string, error) {
	root, err := gomod.Root(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, one := range list {
		key, err := one.key(root)
		if err != nil {
			return nil, err
		}
		has, err := cache.Has(key)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, one.name)
		}
	}
	return missing, nil
}

// key names the program's cache entry. The module's go.mod has every version in it.
func (p program) key(root string) (string, error) {
	content := []byte(p.pkg + "@" + p.version)
	if p.version == "" {
		var err error
		if content, err = os.ReadFile(filepath.Join(p.toolsDir(root), "go.mod")); err != nil {
			return "", fmt.Errorf("%w; run this in criadapter's source tree", err)
		}
	}
	sum := sha256.Sum256(append(content, p.linkerFlags+p.tags...))
	return cache.Key("cluster", p.name, runtime.GOOS, runtime.GOARCH, runtime.Version(), "static",
		hex.EncodeToString(sum[:6])), nil
}

func (p program) toolsDir(root string) string {
	return filepath.Join(root, "test", "cluster", "tools", p.tools)
}

// build compiles the program to dir. It runs in the directory of the module that pins the versions.
func (p program) build(ctx context.Context, root, dir string) error {
	if p.version != "" {
		return p.install(ctx, dir)
	}
	args := []string{"build"}
	if p.isTest {
		args = []string{"test", "-c", "-vet=off"} // vet would check a lot of foreign code
	}
	args = append(args, "-trimpath", "-buildvcs=false", "-ldflags", p.linkerFlags, "-o", filepath.Join(dir, p.name))
	environ, tags := []string{"CGO_ENABLED=0"}, p.tags
	if p.cgo {
		environ = []string{"CGO_ENABLED=1"}
		tags += " netgo osusergo" // a static C library looks up neither hosts nor users
	}
	args = append(args, "-tags", tags)
	_, err := gomod.Command(ctx, p.toolsDir(root), append(environ, gomod.Native()...), append(args, p.pkg)...)
	return err
}

// install compiles a program that has a version.
func (p program) install(ctx context.Context, dir string) error {
	environ := append([]string{"CGO_ENABLED=0", "GOBIN=" + dir}, gomod.Native()...)
	_, err := gomod.Command(ctx, dir, environ, "install", "-trimpath", "-buildvcs=false", "-ldflags", p.linkerFlags,
		p.pkg+"@"+p.version)
	if err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, path.Base(p.pkg)), filepath.Join(dir, p.name))
}
