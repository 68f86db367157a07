package container

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// maxHookBody bounds what is read of a hook's HTTP answer, in bytes.
const maxHookBody = 10 << 10

// hookTarget is the container that a hook runs in or asks.
type hookTarget struct {
	spec *v1.Container
	id   string
	// ip is the pod's address.
	ip string
}

// postStart runs the hook of a container that has just started. When it fails the container is killed.
func (a *Actor) postStart(ctx context.Context, in inSandbox, start Start, id string) error {
	if start.Spec.Lifecycle == nil || start.Spec.Lifecycle.PostStart == nil {
		return nil
	}
	target := hookTarget{spec: start.Spec, id: id, ip: hookAddress(in.ips)}
	err := a.runHook(ctx, target, start.Spec.Lifecycle.PostStart)
	if err == nil {
		return nil
	}
	a.tell(in.pod, start.Spec.Name, true)("FailedPostStartHook", fmt.Sprintf("PostStartHook failed: %v", err))
	kill := Kill{
		Container: model.ContainerStatus{ID: id, Name: start.Spec.Name}, Spec: start.Spec, Reason: "Killing",
		Message: "its postStart hook failed",
	}
	if killErr := a.killOne(ctx, in.pod, kill, nil); killErr != nil {
		err = fmt.Errorf("%w; %w", err, killErr)
	}
	return &model.ReasonError{Reason: model.ReasonPostStartHookError, Err: err}
}

// preStop runs the hook, at most for the grace period. That it fails does not keep the container.
func (a *Actor) preStop(ctx context.Context, pod *v1.Pod, k Kill, hook *v1.LifecycleHandler, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	target := hookTarget{spec: k.Spec, id: k.Container.ID}
	if answer, err := a.opts.Runtime.PodSandboxStatus(ctx, k.Container.SandboxID, false); err == nil {
		target.ip = answer.GetStatus().GetNetwork().GetIp()
	}
	if err := a.runHook(ctx, target, hook); err != nil {
		a.tell(pod, k.Container.Name, true)("FailedPreStopHook", fmt.Sprintf("PreStopHook failed: %v", err))
	}
}

// preStopHook is the container's hook; where the specification is gone, what an earlier kubelet wrote down.
func preStopHook(k Kill) *v1.LifecycleHandler {
	if k.Spec != nil {
		if k.Spec.Lifecycle == nil {
			return nil
		}
		return k.Spec.Lifecycle.PreStop
	}
	text := k.Container.Annotations[model.AnnotationPreStopHandler]
	if text == "" {
		return nil
	}
	var hook v1.LifecycleHandler
	if err := json.Unmarshal([]byte(text), &hook); err != nil {
		return nil
	}
	return &hook
}

func hookAddress(ips []string) string {
	if len(ips) == 0 {
		return "127.0.0.1" // the host's network
	}
	return ips[0]
}

func (a *Actor) runHook(ctx context.Context, target hookTarget, hook *v1.LifecycleHandler) error {
	switch {
	case hook.Exec != nil:
		timeout := time.Duration(0)
		if deadline, ok := ctx.Deadline(); ok {
			timeout = max(time.Second, time.Until(deadline))
		}
		_, stderr, err := a.opts.Runtime.ExecSync(ctx, target.id, hook.Exec.Command, timeout)
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

func httpHook(ctx context.Context, target hookTarget, get *v1.HTTPGetAction) error {
	host := get.Host
	if host == "" {
		host = target.ip
	}
	port, err := model.ResolvePort(get.Port, target.spec)
	if err != nil {
		return err
	}
	address := url.URL{Scheme: strings.ToLower(string(get.Scheme)), Host: net.JoinHostPort(host, strconv.Itoa(port))}
	if address.Scheme == "" {
		address.Scheme = "http"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String()+get.Path, nil)
	if err != nil {
		return err
	}
	for _, header := range get.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxHookBody)) // for the message only
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answered %s: %s", request.URL, answer.Status, body)
	}
	return nil
}
