package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// loneCore is a second kubelet core on the criadapter of the node. Neither kubelet core touches the other's pods.
type loneCore struct {
	scene *scene
	// owner is the owner label of its pods. It is also the node's name, unless flags set another.
	owner     string
	manifests string
	dir       string
	flags     []string
}

// newLoneCore returns a kubelet core with its directories. start must be called to run it.
func (s *scene) newLoneCore(flags ...string) *loneCore {
	s.Helper()
	c := &loneCore{scene: s, owner: s.namespace, dir: filepath.Join(s.node.server.Dir, s.namespace), flags: flags}
	c.manifests = filepath.Join(c.dir, "manifests")
	testutil.Must(s, os.MkdirAll(c.manifests, 0o755))
	return c
}

func (c *loneCore) log() string {
	return filepath.Join(c.scene.node.server.Dir, c.scene.namespace+".log")
}

// start runs the core until the end of the scene. Then its pods are removed.
func (c *loneCore) start() {
	c.scene.Helper()
	node := c.scene.node
	core, err := process.Start(c.log(), nil, c.scene.programs.KubeletCore, append([]string{
		"run", "--hostname-override", c.owner, "--node-ip", c.scene.plane.Address, "--manifests", c.manifests,
		"--container-runtime-endpoint", node.server.Endpoint, "--read-address", "127.0.0.1:0", "--beside-kubelet",
		"--root-dir", filepath.Join(c.dir, "root"), "--pod-logs-dir", filepath.Join(c.dir, "logs"),
		"--cgroup-root", filepath.Join(filepath.Dir(node.cgroup), c.owner), "--image-gc-high-threshold", "100",
		"--eviction-hard", "memory.available<100Mi", "--log-level", "debug",
	}, c.flags...)...)
	testutil.Must(c.scene, err)
	c.scene.Cleanup(func() {
		testutil.Check(c.scene, core.Stop(context.Background()))
		testutil.Check(c.scene, c.remove())
		testutil.Check(c.scene, program.UnmountBelow(c.dir))
		if c.scene.Failed() {
			c.scene.Logf("the end of its log:\n%s", core.LogTail())
		}
	})
}

func (c *loneCore) own() *runtimeapi.PodSandboxFilter {
	return &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: c.owner}}
}

func (c *loneCore) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return adapter.RemovePods(ctx, c.scene.node.server.Runtime, c.own())
}

// containers returns the ids of its running containers by pod name.
func (c *loneCore) containers() map[string]string {
	c.scene.Helper()
	list, err := c.scene.node.server.Runtime.ListContainers(c.scene.Context(), &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{model.LabelOwner: c.owner},
	})
	testutil.Must(c.scene, err)
	ids := make(map[string]string)
	for _, one := range list {
		ids[one.GetLabels()[model.LabelPodName]] = one.GetId()
	}
	return ids
}

// runs fails unless the static pod with this name runs.
func (c *loneCore) runs(pod string) error {
	if now := c.containers(); now[pod+"-"+c.owner] == "" {
		return fmt.Errorf("only these pods run: %v", now)
	}
	return nil
}
