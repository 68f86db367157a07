package kuberuntime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/httpget"
	"github.com/criadapter/criadapter/kubelet/model"
)

// hookUserAgent is the User-Agent of HTTP hooks.
const hookUserAgent = "kube-lifecycle/kubelet-core"

// hookTarget is the container of an exec hook, or the pod of an HTTP hook.
type hookTarget struct {
	spec *v1.Container
	id   string
	// ip is the pod's address.
	ip string
}

// postStart runs the postStart hook of a new container. If the hook fails, postStart kills the container, unless ctx
// has ended. If ctx ended with the pod, the pod's end kills the container. If ctx ended with the kubelet, the container
// runs on.
func (m *Manager) postStart(ctx context.Context, in inSandbox, start containerStart, id string) error {
	if start.Spec.Lifecycle == nil || start.Spec.Lifecycle.PostStart == nil {
		return nil
	}
	target := hookTarget{spec: start.Spec, id: id, ip: hookAddress(in.ips...)}
	err := m.runHook(ctx, target, start.Spec.Lifecycle.PostStart)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		m.record(in.pod, start.Spec.Name, true)("FailedPostStartHook", fmt.Sprintf("PostStartHook failed: %v", err))
		kill := containerKill{
			Container: model.ContainerStatus{ID: id, Name: start.Spec.Name, SandboxID: in.id}, Spec: start.Spec,
			Message: "FailedPostStartHook", // the kubelet's text
		}
		if killErr := m.killOne(ctx, in.pod, kill, KillOptions{}, nil); killErr != nil {
			err = fmt.Errorf("%w; %w", err, killErr)
		}
	}
	return &model.ReasonError{Reason: model.ReasonPostStartHookError, Err: err}
}

// preStop starts the hook and waits for its end, at most for the grace period. A longer hook runs until the caller has
// stopped the container and calls end. A failure is only recorded as an event.
func (m *Manager) preStop(
	ctx context.Context, pod *v1.Pod, k containerKill, hook *v1.LifecycleHandler, grace time.Duration,
) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- m.runHook(ctx, m.preStopTarget(ctx, k, hook), hook) }()
	end = cancel
	var err error
	select {
	case err = <-result:
	case <-time.After(grace):
		err = fmt.Errorf("it has not ended within the grace period of %v", grace)
		end = func() { cancel(); <-result }
	}
	if err != nil {
		m.opts.Events.WarnFailure(ctx, pod, k.Container.Name, "FailedPreStopHook",
			fmt.Sprintf("PreStopHook failed: %v", err))
	}
	return end
}

// preStopTarget looks up the pod's address only for an HTTP hook.
func (m *Manager) preStopTarget(ctx context.Context, k containerKill, hook *v1.LifecycleHandler) hookTarget {
	target := hookTarget{spec: hookSpec(k), id: k.Container.ID}
	if hook.HTTPGet == nil {
		return target
	}
	if answer, err := m.opts.Runtime.PodSandboxStatus(ctx, k.Container.SandboxID, false); err == nil {
		target.ip = hookAddress(answer.GetStatus().GetNetwork().GetIp())
	}
	return target
}

// preStopHook returns the container's hook, or nil.
func preStopHook(k containerKill) *v1.LifecycleHandler {
	lifecycle := hookSpec(k).Lifecycle
	if lifecycle == nil {
		return nil
	}
	return lifecycle.PreStop
}

// hookSpec returns the container's specification. If no source lists the pod, hookSpec makes one from the container's
// annotations, with the fields that a preStop hook needs. It leaves out annotations that are not JSON.
func hookSpec(k containerKill) *v1.Container {
	if k.Spec != nil {
		return k.Spec
	}
	var hook *v1.LifecycleHandler
	var ports []v1.ContainerPort
	if json.Unmarshal([]byte(k.Container.Annotations[model.AnnotationPreStopHandler]), &hook) != nil {
		hook = nil
	}
	if json.Unmarshal([]byte(k.Container.Annotations[model.AnnotationContainerPorts]), &ports) != nil {
		ports = nil
	}
	return &v1.Container{Lifecycle: &v1.Lifecycle{PreStop: hook}, Ports: ports}
}

// hookAddress returns the pod's first address. A pod in the host's network has no address of its own, so its address is
// the loopback address.
func hookAddress(ips ...string) string {
	return cmp.Or(slices.Concat(ips, []string{"127.0.0.1"})...)
}

func (m *Manager) runHook(ctx context.Context, target hookTarget, hook *v1.LifecycleHandler) error {
	switch {
	case hook.Exec != nil:
		const unlimited = 0 // ctx bounds the command
		_, stderr, err := m.opts.Runtime.ExecSync(ctx, target.id, hook.Exec.Command, unlimited)
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(stderr)))
		}
		return nil
	case hook.HTTPGet != nil:
		return httpHook(ctx, target, hook.HTTPGet)
	case hook.Sleep != nil:
		select {
		case <-time.After(time.Duration(hook.Sleep.Seconds) * time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		return fmt.Errorf("the hook has none of exec, httpGet, sleep")
	}
}

// httpHook makes the request of a hook. As in the kubelet, any response is a success, whatever its status code. If a
// server does not speak TLS, the request is repeated over plain HTTP, without the Authorization header.
func httpHook(ctx context.Context, target hookTarget, get *v1.HTTPGetAction) error {
	request, err := httpget.Request(ctx, get, target.spec, target.ip, hookUserAgent)
	if err != nil {
		return err
	}
	err = ask(request)
	if errors.Is(err, http.ErrSchemeMismatch) {
		plain := request.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		err = ask(plain)
	}
	return err
}

func ask(request *http.Request) error {
	answer, err := httpget.Client(0).Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
