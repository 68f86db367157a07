package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/numbered"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// writer is a container that writes numbered lines.
type writer struct {
	t      *testing.T
	server *adapter.Server
	pod    string
	config *runtimeapi.PodSandboxConfig
	image  *runtimeapi.ImageSpec
	id     string
	// logPath is the CRI log, and control a directory that the container sees as /control.
	logPath, control string
}

// newWriter runs a container with a shell script in a pod of its own. The script can call the function lines FROM TO,
// which writes the numbered lines from FROM to TO.
func newWriter(t *testing.T, env rigenv.Env, server *adapter.Server, script string) *writer {
	t.Helper()
	w := &writer{t: t, server: server}
	name := rigenv.Unique(t.Name())
	pod := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "chaos", Uid: name},
		LogDirectory: filepath.Join(server.Dir, "logs", name),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	w.control = filepath.Join(server.Dir, "control-"+name)
	testutil.Must(t, os.Mkdir(w.control, 0o755))
	w.image = &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")}
	_, err := server.Images.PullImage(t.Context(), w.image, nil, pod)
	testutil.Must(t, err)
	w.pod, err = server.Runtime.RunPodSandbox(t.Context(), pod, "")
	testutil.Must(t, err)
	t.Cleanup(w.remove)
	w.config = pod
	testutil.Must(t, w.run("writer", script))
	return w
}

// siblings runs containers with the script in the pod of w until the pod has n, and returns all of them, w first.
func (w *writer) siblings(n int, script string) []*writer {
	w.t.Helper()
	writers := make([]*writer, n)
	writers[0] = w
	var group errgroup.Group
	group.SetLimit(4)
	for i := 1; i < n; i++ {
		sibling := *w
		writers[i] = &sibling
		group.Go(func() error { return sibling.run(fmt.Sprintf("writer-%d", i), script) })
	}
	testutil.Must(w.t, group.Wait())
	return writers
}

// run creates and starts the container. $0 of the script is the container's name.
func (w *writer) run(name, script string) (err error) {
	w.logPath = filepath.Join(w.config.GetLogDirectory(), name, "0.log")
	if err := os.MkdirAll(filepath.Dir(w.logPath), 0o755); err != nil {
		return err
	}
	w.id, err = w.server.Runtime.CreateContainer(w.t.Context(), w.pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    w.image,
		Command:  []string{"sh", "-c", numbered.Function + awaitFunction + script, name},
		LogPath:  name + "/0.log",
		Mounts:   []*runtimeapi.Mount{{HostPath: w.control, ContainerPath: "/control"}},
	}, w.config)
	if err != nil {
		return err
	}
	return w.server.Runtime.StartContainer(w.t.Context(), w.id)
}

// awaitFunction waits for a file in the control directory.
const awaitFunction = `await() { while [ ! -e /control/$1 ]; do sleep 0.02; done; }
`

// inBursts is a script that writes bursts of lines with a pause in seconds after each.
func inBursts(bursts, burst int, pause string) string {
	return fmt.Sprintf("i=0; while [ $i -lt %d ]; do lines $((i + 1)) $((i + %d)); i=$((i + %d)); sleep %s; done",
		bursts*burst, burst, burst, pause)
}

func (w *writer) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.server.PID() == 0 {
		if err := w.server.Start(ctx); err != nil {
			w.t.Error(err)
			return
		}
	}
	testutil.Check(w.t, w.server.Runtime.StopPodSandbox(ctx, w.pod))
	testutil.Check(w.t, w.server.Runtime.RemovePodSandbox(ctx, w.pod))
}

// signal makes the file in the control directory that the container waits for.
func (w *writer) signal(name string) {
	w.t.Helper()
	testutil.Must(w.t, os.WriteFile(filepath.Join(w.control, name), nil, 0o644))
}

// await waits for a file that the container makes in the control directory.
func (w *writer) await(name string) {
	w.t.Helper()
	testutil.Eventually(w.t, func() error {
		_, err := os.Stat(filepath.Join(w.control, name))
		return err
	})
}

// awaitLine waits until the CRI log ends with the line of this number. The container must pause after that line.
func (w *writer) awaitLine(number int) {
	w.t.Helper()
	want := fmt.Sprintf(" F line %08d %085d\n", number, 0)
	testutil.Eventually(w.t, func() error {
		file, err := os.Open(w.logPath)
		if err != nil {
			return err
		}
		defer file.Close()
		tail := make([]byte, len(want))
		if _, err = file.Seek(-int64(len(tail)), io.SeekEnd); err == nil {
			_, err = io.ReadFull(file, tail)
		}
		if err == nil && string(tail) != want {
			err = fmt.Errorf("the log ends with %q, want %q", tail, want)
		}
		return err
	})
}

// restart starts criadapter after it was killed.
func (w *writer) restart() {
	w.t.Helper()
	testutil.Must(w.t, w.server.Start(w.t.Context()))
}

// awaitExit waits until criadapter says that the container has ended: then its log is complete.
func (w *writer) awaitExit() {
	w.t.Helper()
	testutil.Eventually(w.t, func() error {
		answer, err := w.server.Runtime.ContainerStatus(w.t.Context(), w.id, false)
		if err == nil && answer.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			err = fmt.Errorf("the container is %v", answer.GetStatus().GetState())
		}
		return err
	})
}
