package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"

	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/cgroups"
)

const (
	// nodeName is the suffix of the pods' names, and the label of this program's pods in the runtime.
	nodeName = "criadapter-run"
	// callTimeout bounds one CRI call, readyTimeout the time from a manifest to a ready pod.
	callTimeout  = 2 * time.Minute
	readyTimeout = 2 * time.Minute
	// poll is the pause between two checks.
	poll = 50 * time.Millisecond
)

// kubeletCore is the kubelet core in this process, with a directory of manifests of its own.
type kubeletCore struct {
	*kubelet.Kubelet
	runtime   internalapi.RuntimeService
	manifests string
	logs      string
	began     time.Time

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // the error of Run, valid once ended is closed
}

// startKubelet starts the kubelet core on the node's socket, without pods.
func startKubelet(ctx context.Context, n *node) (_ *kubeletCore, err error) {
	step("Starting the kubelet core on this server")
	log, err := os.Create(filepath.Join(n.dir, "kubelet.log"))
	if err != nil {
		return nil, err
	}
	logrus.SetOutput(log)
	klog.SetLogger(logr.Discard()) // the CRI client also returns the errors that it logs
	k := &kubeletCore{manifests: filepath.Join(n.dir, "manifests"), logs: n.logs(), ended: make(chan struct{})}
	if err := os.Mkdir(k.manifests, 0o755); err != nil {
		return nil, err
	}
	k.Kubelet, err = kubelet.New(ctx, kubelet.Options{
		RuntimeEndpoint: "unix://" + n.socket(), NodeName: nodeName, Manifests: k.manifests,
		RootDir: filepath.Join(n.dir, "kubelet"), PodLogsDir: k.logs, ReadAddress: "127.0.0.1:0", CgroupRoot: nodeName,
		// The installed engine's images belong to its user, so garbage collection removes none.
		GC: housekeeping.GCOptions{Containers: time.Second, HighPercent: 100},
	})
	if err != nil {
		return nil, err
	}
	k.runtime, err = cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint("unix://" + n.socket()).
		WithConnectionTimeout(callTimeout).
		Build(ctx)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // stop removes the pods even after ctx has ended
	k.cancel = cancel
	go func() {
		defer close(k.ended)
		k.err = errors.Join(k.Run(running), log.Close())
		logrus.SetOutput(io.Discard)
	}()
	return k, nil
}

// run puts the manifest into the directory and waits until all its pods are ready.
func (k *kubeletCore) run(ctx context.Context, manifest string) ([]*v1.Pod, error) {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	k.began = time.Now()
	if err := os.WriteFile(filepath.Join(k.manifests, "pod.yaml"), text, 0o644); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		pods := k.Pods()
		if unready(pods) == nil {
			for _, pod := range pods {
				step("Pod %s/%s is up after %s", pod.Namespace, pod.Name, time.Since(k.began).Round(time.Millisecond))
			}
			return pods, nil
		}
		select {
		case <-time.After(poll):
		case <-k.ended:
			return nil, fmt.Errorf("the kubelet core ended: %w", k.err)
		case <-ctx.Done():
			return nil, fmt.Errorf("%w\nthe log of the kubelet core:\n%s", unready(pods), k.log())
		}
	}
}

func (k *kubeletCore) log() string {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(k.manifests), "kubelet.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// unready returns an error that names the pods that are not ready, and why.
func unready(pods []*v1.Pod) error {
	if len(pods) == 0 {
		return errors.New("the manifest made no pod")
	}
	var errs []error
	for _, pod := range pods {
		ready := v1.PodCondition{Reason: pod.Status.Reason, Message: pod.Status.Message} // without a Ready condition
		if condition := model.FindCondition(pod.Status.Conditions, v1.PodReady); condition != nil {
			ready = *condition
		}
		if ready.Status != v1.ConditionTrue {
			errs = append(errs, fmt.Errorf("pod %s is not ready: %s %s", pod.Name, ready.Reason, ready.Message))
		}
	}
	return errors.Join(errs...)
}

// stop removes all manifests, waits until their pods are gone, and ends the kubelet core.
func (k *kubeletCore) stop(ctx context.Context) (err error) {
	defer func() {
		k.cancel()
		<-k.ended
		err = errors.Join(err, cgroups.Remove(nodeName))
	}()
	pods := k.Pods()
	if err := os.RemoveAll(k.manifests); err != nil {
		return err
	}
	for {
		left, err := k.runtime.ListPodSandbox(ctx,
			&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: nodeName}})
		if err == nil && len(left) == 0 && len(k.Pods()) == 0 {
			break
		}
		select {
		case <-time.After(poll):
		case <-k.ended:
			return fmt.Errorf("the kubelet core ended: %w", k.err)
		case <-ctx.Done():
			return fmt.Errorf("%d pods are left: %w", len(left), errors.Join(err, ctx.Err()))
		}
	}
	for _, pod := range pods {
		step("Pod %s/%s is removed", pod.Namespace, pod.Name)
	}
	return k.runtime.Close(ctx)
}
