package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/images"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// Specs makes CRI configurations of pods; *podspec.Generator is one.
type Specs interface {
	Sandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error)
	Container(ctx context.Context, in podspec.ContainerInput) (*runtimeapi.ContainerConfig, func(), error)
}

// Options configure an Actor. All but Backoff are required.
type Options struct {
	Runtime *cri.Runtime
	Specs   Specs
	Images  *images.Puller
	Events  *events.Recorder
	// Backoff is the pause before a container that ended is started again.
	Backoff backoff.Options
}

// Actor does to a pod what must be done. Calls for different pods may run at the same time, calls for one pod must not.
type Actor struct {
	opts    Options
	crashes *backoff.Backoff
}

// NewActor makes an actor.
func NewActor(opts Options) *Actor {
	return &Actor{opts: opts, crashes: backoff.New(opts.Backoff)}
}

// Result is what a sync found that the runtime does not show.
type Result struct {
	// Waiting says by container name why a container does not run (yet).
	Waiting map[string]*model.ReasonError
	// Again is when another sync makes sense at the latest, because a back-off ends; 0 for no such time.
	Again time.Duration
}

// wait notes why a container waits, and when to look again.
func (r *Result) wait(name string, reason *model.ReasonError, again time.Duration) {
	r.Waiting[name] = reason
	if again > 0 && (r.Again == 0 || again < r.Again) {
		r.Again = again
	}
}

// Sync does what ComputeActions asks for. The error joins all that went wrong; a container in back-off is none.
func (a *Actor) Sync(ctx context.Context, pod *v1.Pod, status *model.PodStatus, probes Probes) (Result, error) {
	result := Result{Waiting: map[string]*model.ReasonError{}}
	actions := ComputeActions(pod, status, probes)
	if actions.KillSandbox {
		if err := a.Kill(ctx, pod, status, KillOptions{Reason: "the pod's sandbox must go"}); err != nil {
			return result, err
		}
		if !actions.CreateSandbox {
			return result, nil
		}
	} else if err := a.killSome(ctx, pod, actions.Kill); err != nil {
		return result, err
	}
	ips := status.IPs()
	sandbox, err := a.opts.Specs.Sandbox(ctx, pod, actions.Attempt)
	if err != nil {
		return result, a.failSandbox(pod, err)
	}
	if actions.CreateSandbox {
		if actions.SandboxID, ips, err = a.runSandbox(ctx, pod, sandbox); err != nil {
			return result, a.failSandbox(pod, err)
		}
	}
	in := inSandbox{pod: pod, id: actions.SandboxID, config: sandbox, ips: ips}
	return result, a.startAll(ctx, in, actions.Start, &result)
}

func (a *Actor) failSandbox(pod *v1.Pod, err error) error {
	a.opts.Events.Record(events.Event{Pod: pod, Warning: true, Reason: "FailedCreatePodSandBox", Message: fmt.Sprintf("Failed to create pod sandbox: %v", err)})
	return fmt.Errorf("sandbox: %w", err)
}

// runSandbox makes the sandbox and returns its id and addresses.
func (a *Actor) runSandbox(ctx context.Context, pod *v1.Pod, config *runtimeapi.PodSandboxConfig) (id string, ips []string, err error) {
	if err := markLogs(config.GetLogDirectory(), a.opts.Runtime.Owner()); err != nil {
		return "", nil, err
	}
	id, err = a.opts.Runtime.RunPodSandbox(ctx, config, "")
	if err != nil {
		return "", nil, err
	}
	answer, err := a.opts.Runtime.PodSandboxStatus(ctx, id, false)
	if err != nil {
		return "", nil, fmt.Errorf("status of the new sandbox: %w", err)
	}
	if pod.Spec.HostNetwork {
		return id, nil, nil
	}
	network := answer.GetStatus().GetNetwork()
	if network.GetIp() == "" {
		return "", nil, errors.New("the new sandbox has no address")
	}
	ips = []string{network.GetIp()}
	for _, more := range network.GetAdditionalIps() {
		ips = append(ips, more.GetIp())
	}
	return id, ips, nil
}

// inSandbox is where containers start.
type inSandbox struct {
	pod    *v1.Pod
	id     string
	config *runtimeapi.PodSandboxConfig
	ips    []string
}

// startAll starts the containers in order. One that fails does not keep the others of its kind from starting.
func (a *Actor) startAll(ctx context.Context, in inSandbox, starts []Start, result *Result) error {
	var errs []error
	for _, start := range starts {
		if wait := a.crashPause(in.pod, start); wait > 0 {
			err := &model.ReasonError{Reason: model.ReasonCrashLoopBackOff, Err: fmt.Errorf(
				"back-off restarting failed container %s in pod %s", start.Spec.Name, in.pod.Name)}
			a.tell(in.pod, start.Spec.Name, true)("BackOff", err.Err.Error())
			result.wait(start.Spec.Name, err, wait)
			continue
		}
		again, err := a.start(ctx, in, start)
		if err == nil {
			continue
		}
		var reason *model.ReasonError
		if !errors.As(err, &reason) {
			reason = &model.ReasonError{Reason: model.ReasonRunContainerError, Err: err}
		}
		result.wait(start.Spec.Name, reason, again)
		if again == 0 {
			errs = append(errs, fmt.Errorf("container %s: %w", start.Spec.Name, err))
		}
		if start.Kind != model.App {
			break // those after it wait for it
		}
	}
	return errors.Join(errs...)
}

// crashPause counts a container's end and says how long it has to wait for its next start.
func (a *Actor) crashPause(pod *v1.Pod, start Start) time.Duration {
	if start.Last == nil || start.Last.State != model.StateExited {
		return 0
	}
	key := string(pod.UID) + "_" + start.Spec.Name + "_" + model.ContainerHash(start.Spec)
	if wait := a.crashes.Remaining(key, start.Last.FinishedAt); wait > 0 {
		return wait
	}
	a.crashes.Fail(key, start.Last.FinishedAt)
	return 0
}

// Forget drops what is remembered of a pod that is gone.
func (a *Actor) Forget(pod *v1.Pod) {
	prefix := string(pod.UID) + "_"
	a.crashes.Forget(func(key string) bool { return len(key) > len(prefix) && key[:len(prefix)] == prefix })
	a.opts.Images.Forget(string(pod.UID))
}

func (a *Actor) tell(pod *v1.Pod, container string, warning bool) func(reason, message string) {
	return func(reason, message string) {
		a.opts.Events.Record(events.Event{Pod: pod, Container: container, Warning: warning, Reason: reason, Message: message})
	}
}
