package state

import (
	"testing"

	"github.com/containerd/log"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

const theirRoot = "/theirs"

// theirPod makes a running pod with a running container that carry the mark of another criadapter's root directory.
func (n *node) theirPod(name string) (podID, id string) {
	n.Helper()
	spec, err := translate.Sandbox(translate.SandboxInput{
		Config: podConfig(name), Image: testImage, Features: n.features, RootDirectory: theirRoot,
	})
	n.must(err)
	podID, err = n.engine.CreateContainer(n.Context(), spec)
	n.must(err)
	n.start(podID)
	app := n.containerSpec(podID, name, "app")
	app.Config.Labels[translate.LabelRootDirectory] = theirRoot
	id, err = n.engine.CreateContainer(n.Context(), app)
	n.must(err)
	n.start(id)
	return podID, id
}

// onOurNode is onNode for a cache with a root directory.
func onOurNode(t *testing.T, test func(*node)) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.cache = New(Options{Engine: n.engine, Records: n.records, RootDirectory: "/ours"})
		test(n)
	})
}

// Two criadapters on one engine do not see each other's pods: neither at the start, nor from events, nor by a refresh.
func TestPodsOfAnotherRootDirectoryAreLeftOut(t *testing.T) {
	onOurNode(t, func(n *node) {
		before, beforeApp := n.theirPod("before")
		own, ownApp := n.startContainer("own")
		n.sync()
		inspects := n.engine.Calls("InspectContainer")
		after, afterApp := n.theirPod("after")
		n.must(n.engine.Exit(afterApp, 1))
		caughtUp()
		got := n.engine.Calls("InspectContainer") - inspects
		testutil.Assert(n, got == 0, "the pods of another root directory cost %d inspects", got)
		_, err := n.cache.RefreshContainer(n.Context(), beforeApp)
		testutil.Assert(n, err != nil, "a refresh shows the container of another root directory")
		for _, id := range []string{before, beforeApp, after, afterApp} {
			n.wantUnknown(id)
		}
		n.wantPod(own, podReady)
		n.wantContainer(ownApp, running)
		n.must(n.engine.RemoveContainer(n.Context(), afterApp))
		settle()
		n.wantPod(own, podReady)
	})
}

// Each pod of another root directory counts once, with or without a sandbox container.
func TestPodsOfOthersAreCounted(t *testing.T) {
	onOurNode(t, func(n *node) {
		n.theirPod("with")
		without, _ := n.theirPod("without")
		n.must(n.engine.RemoveContainer(n.Context(), without))
		n.startContainer("own")
		list, err := n.engine.ListContainers(n.Context(), map[string]string{translate.LabelKind: ""})
		n.must(err)
		logger, hook := logtest.NewNullLogger()
		ours := n.cache.leaveOthers(log.WithLogger(n.Context(), logger.WithField("test", true)), list)
		testutil.Equal(n, len(ours), 2, "our containers")
		testutil.Require(n, len(hook.AllEntries()) == 1, "%d lines", len(hook.AllEntries()))
		testutil.Equal(n, hook.LastEntry().Data["pods"], any(2), "their pods")
		testutil.Equal(n, hook.LastEntry().Data["rootDirectories"], any(theirRoot), "their directories")
	})
}

// A moved root directory has the checkpoints of its pods.
func TestPodsOfAMovedRootDirectoryAreOurs(t *testing.T) {
	onOurNode(t, func(n *node) {
		podID, id := n.theirPod("moved")
		n.records.save(readyRecord(podID, "moved"))
		n.sync()
		n.wantPod(podID, podReady)
		n.wantContainer(id, running)
		n.must(n.engine.Exit(id, 0))
		caughtUp()
		n.wantContainer(id, exited)
	})
}
