package container

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A container of a criadapter with another root directory is not treated as a leftover. The error names that root
// directory.
func TestCreateLeavesContainersOfAnotherRootDirectoryAlone(t *testing.T) {
	n, engine := newFakeNode(t)
	n.opts.RootDirectory = "/ours"
	pod := n.pod()
	draft, err := n.prepare(t.Context(), n.knownPod(pod), n.config("sleep"))
	testutil.Must(t, err)
	testutil.Equal(t, draft.spec.Config.Labels[translate.LabelRootDirectory], "/ours", "our container carries the mark")
	release, err := n.cache.Reserve(draft.spec.Name) // the cache does not know it
	testutil.Must(t, err)
	draft.spec.Config.Labels[translate.LabelRootDirectory] = "/theirs"
	theirs, err := engine.CreateContainer(t.Context(), draft.spec)
	testutil.Must(t, err)
	err = n.removeLeftover(t.Context(), draft.spec.Name)
	testutil.Assert(t, errdefs.IsAlreadyExists(err) && strings.Contains(err.Error(), "--root-directory=/theirs"),
		"the error is %v, want AlreadyExists that names the owner", err)
	_, err = engine.InspectContainer(t.Context(), theirs)
	testutil.Check(t, err, "their container")
	release()
}
