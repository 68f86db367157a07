package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// watch runs Watch until the test ends or the returned function is called.
func (n *node) watch() (stop func()) { return n.background("Watch", n.Watch) }

func TestContainerStartedByOthers(t *testing.T) {
	for name, again := range map[string]func(n *node, engine *dockertest.Engine, id string) error{
		"docker start": func(n *node, engine *dockertest.Engine, id string) error {
			if err := engine.Exit(id, 0); err != nil {
				return err
			}
			n.waitState(id, exited)
			return engine.StartContainer(n.t.Context(), id)
		},
		"docker restart": func(n *node, engine *dockertest.Engine, id string) error {
			return errors.Join(engine.Exit(id, 0), engine.StartContainer(n.t.Context(), id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			cgroup := newCgroup(t, n, "hugetlb.2MB.max", "memory.high")
			n.watch()
			config := n.config("sleep")
			config.Linux = &runtimeapi.LinuxContainerConfig{
				Resources: unified(map[string]string{"memory.high": "1000"})}
			id, logPath := n.loggedAt("c/0.log", n.pod(), config)
			n.start(id)
			for round := range 3 {
				n.writeLog(id, numbered(round*10+1, round*10+10)...)
				// the next run starts in a new cgroup
				testutil.Must(t, os.WriteFile(filepath.Join(cgroup.dir, "memory.high"), []byte("max"), 0o644))
				before := n.look(id).Status.StartedAt
				testutil.Must(t, again(n, engine, id))
				testutil.Until(t, "the next run", func() bool {
					return n.look(id).Status.Running && n.look(id).Status.StartedAt.After(before)
				})
				testutil.Until(t, "its limit", func() bool {
					text, err := os.ReadFile(filepath.Join(cgroup.dir, "memory.high"))
					return err == nil && string(text) == "1000"
				})
			}
			n.writeLog(id, numbered(31, 40)...)
			n.exit(engine, id, 0)
			n.waitLog(logPath, numbered(1, 40)) // the exit may come before Watch follows the last run
		})
	}
}

// TestShortRunStartedByOthers: the output of a run that ends before Watch looks after it is in the log, too.
func TestShortRunStartedByOthers(t *testing.T) {
	n, engine := newFakeNode(t)
	id, logPath := n.loggedAt("c/0.log", n.pod(), n.config("sleep"))
	n.start(id)
	n.writeLog(id, numbered(1, 10)...)
	n.exit(engine, id, 0)
	n.wantLog(logPath, numbered(1, 10))
	testutil.Must(t, engine.StartContainer(t.Context(), id))
	n.waitState(id, running)
	n.writeLog(id, numbered(11, 20)...)
	n.exit(engine, id, 0)
	n.watch()
	n.waitLog(logPath, numbered(1, 20))
}

// The records of containers that others remove (docker container prune) must not pile up for the life of the pod.
func TestRecordOfAContainerRemovedByOthersIsDropped(t *testing.T) {
	n, engine := newFakeNode(t)
	n.watch()
	pod := n.pod()
	kept, pruned := n.create(pod, n.config("sleep")), n.create(pod, withAttempt(n.config("sleep"), 1))
	testutil.Must(t, engine.RemoveContainer(t.Context(), pruned))
	testutil.Eventually(t, func() error {
		record, err := n.store.Load(t.Context(), pod)
		if err != nil || len(record.Containers) != 1 {
			return fmt.Errorf("the checkpoint holds %d containers (%v), want one", len(record.Containers), err)
		}
		if _, ok := record.Containers[kept]; !ok {
			return errors.New("the checkpoint has lost the other container")
		}
		return nil
	})
}

// Remove drops the record itself. The event of the removal causes no inspect.
func TestRemoveAsksTheEngineNothingMore(t *testing.T) {
	n, engine := newFakeNode(t)
	stop := n.watch()
	pod := n.pod()
	var ids []string
	for i := range 20 {
		ids = append(ids, n.create(pod, withAttempt(n.config("sleep"), uint32(i))))
	}
	var before int
	testutil.Until(t, "the events of the creation are over", func() bool {
		before = engine.Calls("InspectContainer")
		time.Sleep(100 * time.Millisecond)
		return engine.Calls("InspectContainer") == before
	})
	for _, id := range ids {
		testutil.Must(t, n.Remove(t.Context(), id))
	}
	stop()
	asked := engine.Calls("InspectContainer") - before
	testutil.Assert(t, asked == 0, "%d inspects for %d removals", asked, len(ids))
}

func withAttempt(config *runtimeapi.ContainerConfig, attempt uint32) *runtimeapi.ContainerConfig {
	config.Metadata.Attempt = attempt
	return config
}

// A record without a saved position is like a lost record. Lines already in the log, here in the rotated one, are not
// written again.
func TestRecoverOfARunningContainerWithoutAPosition(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	id, logPath := n.logged(pod, "sleep")
	n.start(id)
	n.writeLog(id, numbered(1, 20)...)
	testutil.Eventually(t, func() error { return n.hasLines(logPath, 20) })
	n.rename(logPath, logPath+".old")
	testutil.Must(t, n.ReopenLog(t.Context(), id))
	n.restart(func() {
		err := n.store.Update(t.Context(), pod, func(r *checkpoint.Record) error {
			kept := r.Containers[id]
			kept.LogPosition = checkpoint.LogPosition{}
			r.Containers[id] = kept
			return nil
		})
		testutil.Must(t, err)
	})
	n.writeLog(id, numbered(21, 30)...)
	n.exit(engine, id, 0)
	n.wantLog(logPath+".old", numbered(1, 20))
	n.wantLog(logPath, numbered(21, 30))
}

// A log that cannot be written, for example on a full disk, does not delay the limits. Limits that a client sets
// meanwhile stay.
func TestLimitsDoNotWaitForTheLog(t *testing.T) {
	for name, takeUp := range map[string]func(*node, context.Context) error{
		"Watch":   func(n *node, ctx context.Context) error { return n.Watch(ctx) },
		"Recover": func(n *node, ctx context.Context) error { return n.Recover(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			config := n.config("sleep")
			config.Linux = &runtimeapi.LinuxContainerConfig{
				Resources: unified(map[string]string{"memory.high": "1000"})}
			id, _ := n.loggedAt("c/0.log", n.pod(), config)
			n.start(id)
			n.reboot(func() {})
			cgroup := newCgroup(t, n, "hugetlb.2MB.max", "memory.high")
			engine.Inject("Features", dockertest.Fault{Block: true, Times: 1}) // following the log needs them
			asked := engine.Calls("Features")
			ctx, cancel := context.WithCancel(t.Context())
			done := testutil.Go(func() error { return takeUp(n, ctx) })
			testutil.Until(t, "the log's turn", func() bool { return engine.Calls("Features") > asked })
			cgroup.want("memory.high", "1000")
			testutil.Check(t, n.Update(t.Context(),
				update(id,
					&runtimeapi.LinuxContainerResources{
						Unified: map[string]string{"memory.high": "2000"}})))
			cancel()
			<-done // with the error of ctx
			cgroup.want("memory.high", "2000")
		})
	}
}

// RemoveContainer drops the record of a run, even if another client has already removed the container.
func TestRunsOfRemovedContainersAreForgotten(t *testing.T) {
	n, engine := newFakeNode(t)
	n.watch()
	runs := func() int {
		n.Service.runs.mu.Lock()
		defer n.Service.runs.mu.Unlock()
		return len(n.Service.runs.starts)
	}
	pod := n.pod()
	for _, remove := range []func(context.Context, string) error{n.Remove, engine.RemoveContainer} {
		id := n.started(pod, n.config("sleep"))
		testutil.Equal(t, runs(), 1, "runs are kept of one container")
		testutil.Must(t, remove(t.Context(), id))
		testutil.Must(t, n.Remove(t.Context(), id))
		testutil.Until(t, "the run is forgotten", func() bool { return runs() == 0 })
	}
}

// A log that cannot be resumed, here because a directory is in its place, is resumed later.
func TestFailedResumeIsTriedAgain(t *testing.T) {
	for name, ended := range map[string]bool{"running": false, "ended meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			id, logPath := n.startLogged()
			n.writeLog(id, numbered(1, 10)...)
			testutil.Eventually(t, func() error { return n.hasLines(logPath, 10) })
			n.restart(func() {
				n.writeLog(id, numbered(11, 20)...)
				if ended {
					testutil.Must(t, engine.Exit(id, 0))
				}
				n.rename(logPath, logPath+".aside")
				testutil.Must(t, os.Mkdir(logPath, 0o755))
			})
			n.watch()
			testutil.Must(t, os.Remove(logPath))
			n.rename(logPath+".aside", logPath)
			testutil.Eventually(t, func() error { return n.hasLines(logPath, 20) })
			n.wantLog(logPath, numbered(1, 20))
		})
	}
}

// Retrying cannot help a log whose driver keeps no file.
func TestLogOfADriverThatCannotBeFollowed(t *testing.T) {
	n, _ := newFakeNode(t)
	id, _ := n.startLogged()
	for driver, done := range map[string]bool{"journald": true, "fluentd": true, "none": true, "json-file": false} {
		c := *n.look(id)
		c.Meta.LogDriver = driver
		c.Meta.LogPath = filepath.Join(t.TempDir(), "c.log")
		c.Meta.EngineLogPath = filepath.Join(t.TempDir(), "missing", "missing", "engine.log")
		c.ID = "of-" + driver
		testutil.Equal(t, n.resumeLog(t.Context(), &c), done, "%s: done", driver)
	}
}
