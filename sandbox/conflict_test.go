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
)

// before creates another container under the pod's name just before the pod's
// own create, when the cache knows of neither.
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
	for name, isRunning := range map[string]bool{"created": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			onNode(t, withCNI, func(n *node) {
				leftover := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec { return spec })
				if isRunning {
					create := n.engine.creating
					n.engine.creating = func(spec docker.ContainerSpec) {
						create(spec)
						n.must(n.engine.Engine.StartContainer(n.Context(), *leftover))
					}
				}
				id := n.run("web")
				if id == *leftover {
					n.Error("the leftover was taken over")
				}
				settle()
				if _, err := n.engine.InspectContainer(n.Context(), *leftover); !errdefs.IsNotFound(err) {
					n.Errorf("the leftover is still there: %v", err)
				}
				n.must(n.Remove(n.Context(), id))
				n.wantNothing()
			})
		})
	}
}

// A lost answer in the middle of a set-up leaves a pod that is seen.
func TestLostAnswerOfCreateLeavesAPodThatCanBeRemoved(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.engine.Inject("CreateContainer", dockertest.Fault{Err: errTest, AfterEffect: true, Times: 1})
		if _, err := n.Run(n.Context(), podConfig("web"), ""); err == nil {
			n.Fatal("Run succeeded")
		}
		settle()
		pods := n.cache.Snapshot().Pods()
		if len(pods) != 1 {
			n.Fatalf("%d pods", len(pods))
		}
		n.wantState(pods[0].ID, notReady)
		n.must(n.Remove(n.Context(), pods[0].ID))
		n.wantNothing()
	})
}

func TestStrangersContainerIsLeftAlone(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		stranger := n.before(func(spec docker.ContainerSpec) docker.ContainerSpec {
			return docker.ContainerSpec{Name: spec.Name, Config: &container.Config{Image: appImage}}
		})
		if _, err := n.Run(n.Context(), podConfig("web"), ""); !errdefs.IsAlreadyExists(err) {
			n.Errorf("Run returned %v, want AlreadyExists", err)
		}
		if _, err := n.engine.InspectContainer(n.Context(), *stranger); err != nil {
			n.Errorf("the stranger's container: %v", err)
		}
		n.must(n.engine.RemoveContainer(n.Context(), *stranger))
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
		if id, err := n.Run(n.Context(), podConfig("web"), ""); !errdefs.IsAlreadyExists(err) {
			n.Errorf("Run returned %s, %v, want AlreadyExists", id, err)
		}
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
		if _, err := n.Run(n.Context(), podConfig("web"), ""); !errdefs.IsAlreadyExists(err) {
			n.Errorf("Run returned %v, want AlreadyExists", err)
		}
		settle()
		n.wantState(*other, notReady)
		n.must(n.Remove(n.Context(), *other))
		n.wantNothing()
	})
}

// A pod of the criadapter with another root directory is neither taken over nor
// replaced, and the error says whose it is.
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
		if !errdefs.IsAlreadyExists(err) || !strings.Contains(err.Error(), "--root-directory=/theirs") {
			n.Errorf("Run returned %v, want AlreadyExists that names the owner", err)
		}
		if _, err := n.engine.InspectContainer(n.Context(), *theirs); err != nil {
			n.Errorf("their sandbox: %v", err)
		}
		n.must(n.engine.RemoveContainer(n.Context(), *theirs))
		settle()
		n.wantNothing()
	})
}
