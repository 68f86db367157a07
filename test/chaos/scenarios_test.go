package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// answered has the ids of the pod and the container in the last answers to a kubelet. runs says that they showed the
// container as running.
type answered struct {
	pod, container string
	runs           bool
}

func (k *kubelet) answered() answered { return answered{k.lastPod, k.lastContainer, k.runs} }

// lost returns an error if the pod or container of an earlier answer is gone, or no longer runs, although no request
// has ended it.
func (k *kubelet) lost(ctx context.Context, s scenario, was answered) error {
	sandboxes, err := k.sandboxes(ctx)
	if err != nil {
		return err
	}
	containers, err := k.in(ctx, was.pod, "main")
	if err != nil {
		return err
	}
	return was.missing(s, sandboxes, containers)
}

// missing compares the answers with the pod's sandboxes and their containers, the newest first.
func (was answered) missing(
	s scenario, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container,
) error {
	if was.pod != "" && s.ends != "pod" {
		if len(sandboxes) == 0 || sandboxes[0].GetId() != was.pod ||
			sandboxes[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
			return fmt.Errorf("pod %s is not READY: %v", was.pod, sandboxes)
		}
	}
	switch {
	case was.container == "" || s.ends != "":
		return nil
	case len(containers) == 0 || containers[0].GetId() != was.container:
		return fmt.Errorf("container %s is missing in %v", was.container, containers)
	case was.runs && containers[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return fmt.Errorf("container %s does not run: %v", was.container, containers)
	default:
		return nil
	}
}

// restore undoes a scenario's changes to the kubelet's container configurations.
func (k *kubelet) restore() {
	k.containers = k.containers[:1]
	k.containers[0].Mounts = nil
}

func (k *kubelet) pull(ctx context.Context, image string) error {
	_, err := k.images().PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	return err
}

func nothing(*walk) error { return nil }

// running brings up the pod with its container.
func running(w *walk) error { return w.kubelet.bring(w.Context()) }

// sandboxAlone runs the pod's sandbox without a container.
func sandboxAlone(w *walk) error { return w.kubelet.run(w.Context(), 0) }

// created creates a container and does not start it.
func created(w *walk) error {
	return errors.Join(sandboxAlone(w), w.kubelet.create(w.Context(), w.kubelet.containers[0], 0))
}

func run(ctx context.Context, w *walk) error { return w.kubelet.run(ctx, 0) }

func create(ctx context.Context, w *walk) error {
	return w.kubelet.create(ctx, w.kubelet.containers[0], 0)
}

func podScenarios() []scenario {
	return []scenario{
		{name: "RunPodSandbox", prepare: nothing, act: run},
		{name: "RunPodSandbox without the sandbox image", kind: "container", prefixes: []string{"engine: load"},
			prepare: withoutSandboxImage, act: run},
		{name: "UpdatePodSandboxResources", prepare: running, act: updatePod, again: func(w *walk) error {
			return updatePod(w.Context(), w)
		}},
		{name: "StopPodSandbox", prepare: running, gone: true, ends: "pod",
			act: func(ctx context.Context, w *walk) error {
				_, err := w.kubelet.runtime().StopPodSandbox(ctx,
					&runtimeapi.StopPodSandboxRequest{PodSandboxId: w.kubelet.lastPod})
				return err
			}},
		{name: "RemovePodSandbox", prepare: running, gone: true, ends: "pod",
			act: func(ctx context.Context, w *walk) error {
				_, err := w.kubelet.runtime().RemovePodSandbox(ctx,
					&runtimeapi.RemovePodSandboxRequest{PodSandboxId: w.kubelet.lastPod})
				return err
			}},
	}
}

// withoutSandboxImage restarts the server. The first RunPodSandbox after a start loads the sandbox image.
func withoutSandboxImage(w *walk) error {
	w.server.Kill()
	return w.server.Start(w.Context())
}

func updatePod(ctx context.Context, w *walk) error {
	_, err := w.kubelet.runtime().UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: w.kubelet.lastPod,
		Resources:    &runtimeapi.LinuxContainerResources{CpuShares: 600, MemoryLimitInBytes: 300 << 20},
	})
	return err
}

func containerScenarios() []scenario {
	return []scenario{
		{name: "CreateContainer", prepare: sandboxAlone, act: create},
		{name: "CreateContainer with an image volume", prefixes: []string{"image volume", "engine: save"}, odd: true,
			prepare: withImageVolume, act: create},
		{name: "StartContainer", prepare: created, act: func(ctx context.Context, w *walk) error {
			return w.kubelet.start(ctx)
		}},
		{name: "StopContainer", prepare: running, ends: "container", act: func(ctx context.Context, w *walk) error {
			_, err := w.kubelet.runtime().StopContainer(ctx,
				&runtimeapi.StopContainerRequest{ContainerId: w.kubelet.lastContainer, Timeout: 5})
			return err
		}},
		{name: "RemoveContainer", prepare: running, ends: "container", act: remove},
		{name: "RemoveContainer with an old image volume", prefixes: []string{"image volume"},
			prepare: withOldImageVolume, ends: "container", act: removeAndTidy},
		{name: "UpdateContainerResources", prepare: running, act: update, again: func(w *walk) error {
			return update(w.Context(), w)
		}},
		{name: "ReopenContainerLog", odd: true, prepare: running, act: reopen, again: unreopen},
		{name: "ReopenContainerLog of a linked log", kind: "container", prefixes: []string{"log link"}, odd: true,
			prepare: linked, act: reopen, again: relinked},
	}
}

// withImageVolume configures a mount of a part of an image. The server has to extract the image first.
func withImageVolume(w *walk) error {
	w.kubelet.containers[0].Mounts = []*runtimeapi.Mount{{
		Image: &runtimeapi.ImageSpec{Image: w.image}, ImageSubPath: "bin", ContainerPath: "/volume", Readonly: true,
	}}
	return errors.Join(w.removeExtracted(), sandboxAlone(w))
}

// withOldImageVolume runs a container with an image volume. By its time stamp, the volume was last used an hour ago. No
// other container uses the volume.
func withOldImageVolume(w *walk) error {
	if err := errors.Join(withImageVolume(w), running(w)); err != nil {
		return err
	}
	w.kubelet.restore()
	dirs, err := filepath.Glob(filepath.Join(w.server.RootDir, "image-volumes", "*"))
	for _, dir := range dirs {
		long := time.Now().Add(-time.Hour)
		err = errors.Join(err, os.Chtimes(dir, long, long))
	}
	return err
}

func remove(ctx context.Context, w *walk) error {
	_, err := w.kubelet.runtime().RemoveContainer(ctx,
		&runtimeapi.RemoveContainerRequest{ContainerId: w.kubelet.lastContainer})
	return err
}

// removeAndTidy also waits until the server has removed the image volume, which happens after the answer.
func removeAndTidy(ctx context.Context, w *walk) error {
	if err := remove(ctx, w); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left, err := os.ReadDir(filepath.Join(w.server.RootDir, "image-volumes")); err != nil || len(left) == 0 ||
			w.server.PID() == 0 {
			return err
		}
	}
	return errors.New("the image volume is still there")
}

func update(ctx context.Context, w *walk) error {
	_, err := w.kubelet.runtime().UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: w.kubelet.lastContainer,
		Linux:       &runtimeapi.LinuxContainerResources{CpuShares: 200, OomScoreAdj: 200},
	})
	return err
}

// rotated is where a kubelet moves a log.
func rotated(w *walk) (path, to string) {
	path = filepath.Join(w.kubelet.pod.GetLogDirectory(), "main", "0.log")
	return path, path + ".20260101-000000"
}

func reopen(ctx context.Context, w *walk) error {
	path, to := rotated(w)
	if err := os.Rename(path, to); err != nil {
		return err
	}
	_, err := w.kubelet.runtime().ReopenContainerLog(ctx,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: w.kubelet.lastContainer})
	return err
}

// unreopen renames the log back, unless there is a new log. A kubelet does this if its request gets no answer.
func unreopen(w *walk) error {
	path, to := rotated(w)
	if _, err := os.Lstat(path); err == nil {
		return nil // criadapter has made a new log
	}
	return os.Rename(to, path)
}

// linked runs a pod whose container log is a link to the engine's log.
func linked(w *walk) error {
	w.server.Kill()
	w.server.SetFlags(append(sandboxKinds[w.kind], "--container-log-mode=symlink")...)
	return errors.Join(w.server.Start(w.Context()), running(w))
}

func relinked(w *walk) error {
	w.server.SetFlags(sandboxKinds[w.kind]...)
	return nil
}

func imageScenarios() []scenario {
	return []scenario{
		{name: "PullImage", prepare: withoutImage, act: pullOther, gone: true, again: func(w *walk) error {
			return pullOther(w.Context(), w)
		}},
		{name: "RemoveImage", prepare: func(w *walk) error {
			return pullOther(w.Context(), w)
		}, act: removeOther, gone: true,
			again: func(w *walk) error { return errors.Join(removeOther(w.Context(), w), w.wantNoImage()) }},
	}
}

func (w *walk) otherImage() string { return w.env.Image("test/multi:b") }

func pullOther(ctx context.Context, w *walk) error { return w.kubelet.pull(ctx, w.otherImage()) }

func removeOther(ctx context.Context, w *walk) error {
	_, err := w.kubelet.images().RemoveImage(ctx,
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: w.otherImage()}})
	return err
}

func withoutImage(w *walk) error { return errors.Join(removeOther(w.Context(), w), w.wantNoImage()) }

// wantNoImage fails if the engine has the other image.
func (w *walk) wantNoImage() error {
	err := exec.CommandContext(w.Context(), "docker", "--host", w.env.DockerHost, "image", "inspect",
		w.otherImage()).Run()
	if err == nil {
		return errors.New("the image is still there")
	}
	return nil
}
