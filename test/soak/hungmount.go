package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
)

const (
	// besidePatience bounds the time until a pod beside a hung mount has run.
	besidePatience = 2 * time.Minute
	// readTimeout bounds each request that reads during a hung mount.
	readTimeout = 10 * time.Second
)

// hungMount is a mount that answers nothing, like NFS whose server is gone: a FUSE file system that no program serves.
// Only SIGKILL ends a process that waits for it.
type hungMount struct {
	dir    string
	device *os.File
}

func newHungMount(dir string) (*hungMount, error) {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := unix.Mount("gone", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return nil, errors.Join(fmt.Errorf("a mount that hangs on %s: %w", dir, err), device.Close())
	}
	return &hungMount{dir: dir, device: device}, nil
}

// end ends the mount. Processes that wait for it get an error.
func (m *hungMount) end() error {
	return errors.Join(m.device.Close(), unix.Unmount(m.dir, unix.MNT_DETACH))
}

// hangMount makes pods with a volume on a mount that hangs. The fault lasts until a pod without such a volume has run.
// Meanwhile criadapter must answer read requests.
func (v victims) hangMount(ctx context.Context, f fault) (err error) {
	pid, err := v.serverPID()
	if err != nil {
		return err
	}
	mount, err := newHungMount(v.hungDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mount.end(), v.stillRuns(pid)) }()
	end := time.Now().Add(f.Lasts)
	pods := v.workload.client.CoreV1().Pods(namespace)
	for i, kind := range []v1.HostPathType{v1.HostPathUnset, v1.HostPathUnset, v1.HostPathDirectory} {
		pod := v.workload.pod(fmt.Sprintf("hung-%d-%d", f.Number, i), "true", 0)
		onMount(pod, v.hungDir, kind)
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	reading, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- v.keepReading(reading) }()
	err = v.runBeside(ctx, f)
	_ = pace.Sleep(ctx, time.Until(end))
	stop()
	return errors.Join(err, <-failed)
}

// onMount gives a pod's container a volume on the hung mount.
func onMount(pod *v1.Pod, dir string, kind v1.HostPathType) {
	pod.Spec.Volumes = []v1.Volume{{Name: "gone", VolumeSource: v1.VolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: dir, Type: &kind}}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "gone", MountPath: "/gone"}}
}

// runBeside runs a pod without a volume on the hung mount. If the workload's churn deletes the pod, it runs another.
func (v victims) runBeside(ctx context.Context, f fault) error {
	ctx, cancel := context.WithTimeout(ctx, besidePatience)
	defer cancel()
	pods := v.workload.client.CoreV1().Pods(namespace)
	began := time.Now()
	for i := 0; ; i++ {
		name := fmt.Sprintf("beside-%d-%d", f.Number, i)
		if _, err := pods.Create(ctx, v.workload.pod(name, "true", 0), metav1.CreateOptions{}); err != nil {
			return err
		}
		for deleted := false; !deleted; _ = pace.Sleep(ctx, look) {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err), err == nil && pod.DeletionTimestamp != nil:
				deleted = true
			case err != nil:
				return fmt.Errorf("pod %s beside a hung mount did not run within %v: %w", name,
					time.Since(began).Round(time.Second), err)
			case pod.Status.Phase == v1.PodSucceeded:
				say("a pod beside the hung mount ran within %v", time.Since(began).Round(time.Second))
				return nil
			}
		}
	}
}

// keepReading sends read requests to criadapter until ctx ends, and returns the first error.
func (v victims) keepReading(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := v.read(context.WithoutCancel(ctx)); err != nil { // a cancelled request would look like a failure
			return fmt.Errorf("while a mount hangs: %w", err)
		}
		_ = pace.Sleep(ctx, look)
	}
	return nil
}

// read makes each read request that a kubelet repeats.
func (v victims) read(ctx context.Context) error {
	runtime, images := v.cluster.Server.Adapter.Runtime, v.cluster.Server.Adapter.Images
	for name, call := range map[string]func(context.Context) (any, error){
		"Status":         func(ctx context.Context) (any, error) { return runtime.Status(ctx, false) },
		"ListPodSandbox": func(ctx context.Context) (any, error) { return runtime.ListPodSandbox(ctx, nil) },
		"ListContainers": func(ctx context.Context) (any, error) { return runtime.ListContainers(ctx, nil) },
		"ListContainerStats": func(ctx context.Context) (any, error) {
			return runtime.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{})
		},
		"ListPodSandboxStats": func(ctx context.Context) (any, error) {
			return runtime.ListPodSandboxStats(ctx, &runtimeapi.PodSandboxStatsFilter{})
		},
		"ListImages":  func(ctx context.Context) (any, error) { return images.ListImages(ctx, nil) },
		"ImageFsInfo": func(ctx context.Context) (any, error) { return images.ImageFsInfo(ctx) },
	} {
		if err := readOne(ctx, call); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func readOne(ctx context.Context, call func(context.Context) (any, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := call(ctx)
	return err
}
