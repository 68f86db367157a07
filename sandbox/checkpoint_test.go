package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func containerConfigs(names ...string) (configs []*runtimeapi.ContainerConfig) {
	for _, name := range names {
		configs = append(configs, &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name}})
	}
	return configs
}

// dumped writes a pod's checkpoint with these containers.
func (n *node) dumped(names ...string) string {
	dir := n.TempDir()
	for _, name := range names {
		n.must(os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	options := `{"version":1,"containers":["` + strings.Join(names, `","`) + `"]}`
	n.must(os.WriteFile(filepath.Join(dir, podOptionsFile), []byte(options), 0o600))
	return dir
}

func TestRestorePod(t *testing.T) {
	onEachKind(t, func(n *node) {
		dir := n.dumped("app", "proxy")
		id, containers, err := n.Restore(n.Context(), dir, podConfig("web"), "", containerConfigs("proxy", "app"))
		n.must(err)
		testutil.Assert(n, len(containers) == 2 && containers["app"] == id+"/app" && containers["proxy"] == id+"/proxy",
			"restored %v in %s", containers, id)
		pod, err := n.cache.Snapshot().Pod(id)
		testutil.Assert(n, err == nil && pod.Status.State() == runtimeapi.PodSandboxState_SANDBOX_READY,
			"the pod is %+v, %v", pod, err)
		n.must(n.Remove(n.Context(), id))
	})
}

// A pod that is made after its client has gone is removed again. If the request is repeated meanwhile, the pod stays.
func TestRestorePodWhoseClientIsGone(t *testing.T) {
	restore := func(n *node, dir string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(n.Context(), within)
		defer cancel()
		_, _, err := n.Restore(ctx, dir, podConfig("web"), "", containerConfigs("app"))
		return err
	}
	onEachKind(t, func(n *node) {
		n.network.setAdd(func(context.Context, cni.Pod) error { time.Sleep(5 * time.Second); return nil })
		dir := n.dumped("app")
		testutil.FailsWith(n, restore(n, dir, time.Second), context.DeadlineExceeded, "restored")
		testutil.FailsWith(n, restore(n, dir, time.Second), context.DeadlineExceeded, "restored")
		time.Sleep(5 * time.Second)
		n.wantNothing()

		testutil.FailsWith(n, restore(n, dir, time.Second), context.DeadlineExceeded, "restored")
		n.must(restore(n, dir, time.Minute))
		time.Sleep(time.Minute)
		pods := n.cache.Snapshot().Pods()
		testutil.Require(n, len(pods) == 1, "the cache has %v", pods)
		n.wantState(pods[0].ID, ready)
		n.removeLast(pods[0].ID)

		testutil.FailsWith(n, restore(n, dir, time.Second), context.DeadlineExceeded, "restored")
		n.Close()
		n.wantNothing()
	})
}

// The second of two equal calls must not remove the pod of the first.
func TestRestorePodTwiceAtOnce(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		dir := n.dumped("app")
		second := testutil.Go(func() error {
			time.Sleep(time.Second / 2)
			_, _, err := n.Restore(n.Context(), dir, podConfig("web"), "", containerConfigs("app"))
			return err
		})
		n.network.setAdd(func(context.Context, cni.Pod) error { time.Sleep(time.Second); return nil })
		id, _, err := n.Restore(n.Context(), dir, podConfig("web"), "", containerConfigs("app"))
		n.must(err)
		testutil.FailsWith(n, <-second, errdefs.ErrAlreadyExists, "restored a second pod")
		n.wantState(id, ready)
		n.must(n.Remove(n.Context(), id))
	})
}

func TestRestorePodRefuses(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		dir := n.dumped("app")
		for name, tc := range map[string]struct {
			dir     string
			configs []*runtimeapi.ContainerConfig
			field   string
		}{
			"a relative path":    {"checkpoint", containerConfigs("app"), "checkpoint_path: "},
			"no checkpoint":      {n.TempDir(), containerConfigs("app"), "checkpoint_path: "},
			"one too many":       {dir, containerConfigs("app", "more"), "container_configs: "},
			"another":            {dir, containerConfigs("other"), "container_configs: "},
			"one name two times": {dir, containerConfigs("app", "app"), "container_configs: "},
		} {
			_, _, err := n.Restore(n.Context(), tc.dir, podConfig("web"), "", tc.configs)
			testutil.Assert(n, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), tc.field),
				"%s: %v", name, err)
		}
		mapped := mappedConfig("web", runtimeapi.NamespaceMode_CONTAINER)
		_, _, err := n.Restore(n.Context(), dir, mapped, "", containerConfigs("app"))
		testutil.Assert(n, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "userns_options: "),
			"with a user namespace: %v", err)
		n.containers.fail(errTest)
		_, _, err = n.Restore(n.Context(), dir, podConfig("web"), "", containerConfigs("app"))
		testutil.Assert(n, err != nil, "a container that cannot be restored is not an error")
		if left := n.cache.Snapshot().Pods(); len(left) != 0 {
			n.Errorf("%d pods are left", len(left))
		}
	})
}

func TestCheckpointPod(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		dir := n.TempDir()
		n.must(n.Checkpoint(n.Context(), id, dir, nil))
		for _, name := range []string{podDumpFile, podOptionsFile} {
			_, err := os.Stat(filepath.Join(dir, name))
			testutil.Check(n, err)
		}
		err := n.Checkpoint(n.Context(), id, dir, nil)
		testutil.Assert(n, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), "output_path: "),
			"a directory that is not empty: %v", err)
		n.containers.fail(errTest)
		failed := n.TempDir()
		testutil.Assert(n, n.Checkpoint(n.Context(), id, failed, nil) != nil,
			"containers that cannot be checkpointed are no error")
		left, err := os.ReadDir(failed)
		testutil.Assert(n, err == nil && len(left) == 0, "after an error there is %v, %v", left, err)
		n.containers.fail(nil)
		n.must(n.Remove(n.Context(), id))
	})
}

// Only an error that another path would avoid is an InvalidArgument.
func TestCheckpointPodWithoutADirectory(t *testing.T) {
	file, absent := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "absent")
	testutil.WriteFile(t, file, "")
	for _, path := range []string{"relative", absent, file, "/" + strings.Repeat("x", 256)} {
		testutil.Fails(t, checkEmpty(path), errdefs.IsInvalidArgument, "%.20s", path)
	}
	dir := t.TempDir()
	var before unix.Rlimit
	testutil.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	testutil.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: before.Max}))
	err := checkEmpty(dir)
	testutil.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	testutil.Assert(t, errors.Is(err, unix.EMFILE) && !errdefs.IsInvalidArgument(err), "without descriptors: %v", err)
}

// The second of two calls with one directory must not remove the checkpoint of the first.
func TestCheckpointPodTwiceAtOnce(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("web")
		ids := []string{n.addContainer(id, "web", "app")}
		dir := n.TempDir()
		second := testutil.Go(func() error {
			time.Sleep(time.Second / 2)
			return n.Checkpoint(n.Context(), id, dir+"/", ids)
		})
		n.must(n.Checkpoint(n.Context(), id, dir, ids))
		testutil.FailsWith(n, <-second, errdefs.ErrInvalidArgument, "wrote a second checkpoint")
		for _, name := range []string{podDumpFile, podOptionsFile, "app"} {
			_, err := os.Stat(filepath.Join(dir, name))
			testutil.Check(n, err)
		}
		n.must(n.Remove(n.Context(), id))
	})
}

// TestCheckpointSaysWhatIsMissing shows what a client learns on an ordinary engine.
func TestCheckpointSaysWhatIsMissing(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		features := dockertest.DefaultFeatures(dockertest.Docker20)
		features.NoCheckpoint = "the program criu"
		engine := dockertest.New(dockertest.Options{Features: features})
		defer engine.Close()
		service := New(Options{Engine: engine, Cache: n.cache})
		defer service.Close()
		_, _, restoreErr := service.Restore(n.Context(), "/x", podConfig("web"), "", nil)
		for _, err := range []error{restoreErr, service.Checkpoint(n.Context(), "x", "/x", nil)} {
			testutil.Assert(n, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "the program criu"),
				"got %v", err)
		}
	})
}
