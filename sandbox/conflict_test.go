package sandbox

import (
	"maps"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// before creates another container under the pod's name just before the pod's own create. The cache has neither of them
// yet.
func (n *node) before(other func(docker.ContainerSpec) docker.ContainerSpec) (id *string) {
	id = new(string)
	n.engine.creating = func(spec docker.ContainerSpec) {
		n.engine.creating = nil
		var err error
		*id, err = n.engine.Engine.CreateContainer(n.Context(), other(spec))
		n.must(err)
	}
	return id
}

// The answer to an earlier create was lost, so no client has its id.
func TestLeftoverOfALostCreateIsReplaced(t *testing.T) {
	onNodes(t, withCNI, map[string]bool{"created": false, "running": true}, func(n *node, isRunning bool) {
		leftover := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec { return spec })
		if isRunning {
			create := n.engine.creating
			n.engine.creating = func(spec docker.ContainerSpec) {
				create(spec)
				n.must(n.engine.Engine.StartContainer(n.Context(), *leftover))
			}
		}
		id := n.run("web")
		testutil.Assert(n, id != *leftover, "the leftover was taken over")
		settle()
		_, err := n.engine.InspectContainer(n.Context(), *leftover)
		testutil.Fails(n, err, errdefs.IsNotFound, "the leftover is still there")
		n.removeLast(id)
	})
}

// If the answer to a create is lost, the pod is listed as NOTREADY and can be removed.
func TestLostAnswerOfCreateLeavesAPodThatCanBeRemoved(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.engine.Inject("CreateContainer", dockertest.Fault{Err: errTest, AfterEffect: true, Times: 1})
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Require(n, err != nil, "Run succeeded")
		settle()
		pods := n.cache.Snapshot().Pods()
		testutil.Require(n, len(pods) == 1, "%d pods", len(pods))
		n.wantState(pods[0].ID, notReady)
		n.removeLast(pods[0].ID)
	})
}

func TestStrangersContainerIsLeftAlone(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		stranger := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec {
			return docker.ContainerSpec{Name: spec.Name, Config: &container.Config{Image: appImage}}
		})
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "Run returned %v, want AlreadyExists", err)
		_, err = n.engine.InspectContainer(n.Context(), *stranger)
		testutil.Check(n, err, "the stranger's container")
		n.must(n.engine.RemoveContainer(n.Context(), *stranger))
		n.wantNothing()
	})
}

// Another CRI server has just made a sandbox of the same name, which the cache does not have yet.
func TestSandboxOfAnotherServerIsLeftAlone(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		theirs := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec {
			config := *spec.Config
			config.Labels = maps.Clone(config.Labels)
			delete(config.Labels, translate.LabelRecord)
			spec.Config = &config
			return spec
		})
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err) && strings.Contains(err.Error(), "was not made by criadapter"),
			"Run returned %v, want AlreadyExists", err)
		_, err = n.engine.InspectContainer(n.Context(), *theirs)
		testutil.Check(n, err, "their sandbox")
		n.must(n.engine.RemoveContainer(n.Context(), *theirs))
		settle()
		n.wantNothing()
	})
}

// cri-dockerd appends random digits to a name that the engine holds reserved.
func TestPodOfAnotherShimWithASuffixedNameIsNotMadeAgain(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		_, err := n.engine.CreateContainer(n.Context(), docker.ContainerSpec{
			Name: sandboxName("web") + "_0123abcd",
			Config: &container.Config{Image: pauseImage, Labels: map[string]string{
				translate.LabelKind: translate.LabelKindSandbox, translate.LabelContainerName: "POD",
			}},
		})
		n.must(err)
		settle()
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "Run returned %s, %v, want AlreadyExists", id, err)
	})
}

// A sandbox with a checkpoint may hold an address, which only Stop gives back.
func TestSandboxWithACheckpointIsNoLeftover(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		other := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec { return spec })
		create := n.engine.creating
		n.engine.creating = func(spec docker.ContainerSpec) {
			create(spec)
			n.must(n.store.Save(t.Context(), checkpoint.Record{SandboxID: *other, Phase: checkpoint.PhaseIntent}))
		}
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "Run returned %v, want AlreadyExists", err)
		settle()
		n.wantState(*other, notReady)
		n.must(n.Remove(n.Context(), *other))
		n.wantNothing()
	})
}

// A pod of the criadapter with another root directory is neither taken over nor replaced, and the error names its
// owner.
func TestPodOfAnotherRootDirectoryIsLeftAlone(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.opts.RootDirectory = "/ours"
		theirs := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec {
			config := *spec.Config
			config.Labels = maps.Clone(config.Labels)
			config.Labels[translate.LabelRootDirectory] = "/theirs"
			spec.Config = &config
			return spec
		})
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err) && strings.Contains(err.Error(), "--root-directory=/theirs"),
			"Run returned %v, want AlreadyExists that names the owner", err)
		_, err = n.engine.InspectContainer(n.Context(), *theirs)
		testutil.Check(n, err, "their sandbox")
		n.must(n.engine.RemoveContainer(n.Context(), *theirs))
		settle()
		n.wantNothing()
	})
}
