package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// Specs makes CRI configurations of pods. *podspec.Generator implements it.
type Specs interface {
	Sandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error)
	Container(ctx context.Context, in podspec.ContainerInput) (*runtimeapi.ContainerConfig, error)
	Resources(pod *v1.Pod, container *v1.Container, before v1.ResourceRequirements) *runtimeapi.LinuxContainerResources
	PodResources(pod *v1.Pod) (overhead, resources *runtimeapi.LinuxContainerResources)
}

// Options configure a Manager. All but Backoff and SandboxReady are required.
type Options struct {
	Runtime *cri.Runtime
	Specs   Specs
	Images  *imagemanager.Puller
	Events  *events.Recorder
	// Allocation has the actuated resources.
	Allocation *allocation.Manager
	// RuntimeHandler returns the runtime handler of a RuntimeClass.
	RuntimeHandler func(ctx context.Context, class string) (string, error)
	// Backoff sets the pause before an ended container is started again.
	Backoff backoff.Options
	// SandboxReady is called when a new sandbox and its network are ready, before images are pulled. It must not block.
	// Nil does nothing.
	SandboxReady func(uid types.UID, now time.Time)
}

// Manager is the runtime manager. Calls for different pods may run at the same time, calls for one pod must not.
type Manager struct {
	opts    Options
	crashes *backoff.Backoff
}

// New makes a manager.
func New(opts Options) *Manager {
	if opts.SandboxReady == nil {
		opts.SandboxReady = func(types.UID, time.Time) {}
	}
	return &Manager{opts: opts, crashes: backoff.New(opts.Backoff)}
}

// Result is the part of a sync's outcome that the runtime's status does not show.
type Result struct {
	// Waiting has the reason why a container does not run yet, by container name.
	Waiting map[string]*model.ReasonError
	// Again is the time until the next back-off ends; 0 if there is none.
	Again time.Duration
	// Idle is true if the sync changed nothing in the runtime.
	Idle bool
	// ResizeErr is the error if the resources of containers could not be changed.
	ResizeErr error
}

func (r *Result) wait(name string, reason *model.ReasonError, again time.Duration) {
	r.Waiting[name] = reason
	if again > 0 && (r.Again == 0 || again < r.Again) {
		r.Again = again
	}
}

// SyncPod carries out the actions that computePodActions decides for a pod with its allocated resources. The error
// joins all failures but leaves out containers in back-off: only Result.Waiting has their reasons. A failed pull begins
// a back-off, too.
func (m *Manager) SyncPod(ctx context.Context, pod *v1.Pod, status *model.PodStatus, probes Probes) (Result, error) {
	result := Result{Waiting: map[string]*model.ReasonError{}}
	actions := computePodActions(pod, status, probes, m.opts.Allocation.Actuated)
	if actions.RestartAll != nil {
		fresh, err := m.restartAll(ctx, pod, status, *actions.RestartAll, &result)
		if err != nil || fresh == nil {
			return result, err
		}
		return m.SyncPod(ctx, pod, fresh, Probes{})
	}
	if actions.nothing() {
		result.Idle = true
		return result, nil
	}
	if actions.CreateSandbox && len(status.Sandboxes) > 0 {
		m.record(pod, "", false)("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	if actions.KillSandbox {
		if err := m.KillPod(ctx, pod, status, KillOptions{Reason: "the pod's sandbox must be stopped"}); err != nil {
			return result, err
		}
		if !actions.CreateSandbox {
			return result, nil
		}
	} else if err := m.killSome(ctx, pod, actions.Kill); err != nil {
		return result, err
	}
	result.ResizeErr = m.resizeAll(ctx, pod, &actions)
	ips := status.IPs()
	sandbox, err := m.opts.Specs.Sandbox(ctx, pod, actions.Attempt)
	if err != nil {
		return result, m.failSandbox(ctx, pod, err)
	}
	if actions.CreateSandbox {
		if actions.SandboxID, err = m.runSandbox(ctx, pod, sandbox); err != nil {
			return result, m.failSandbox(ctx, pod, err)
		}
		if ips, err = m.newAddresses(ctx, pod, actions.SandboxID); err != nil {
			return result, err
		}
		m.opts.SandboxReady(pod.UID, time.Now())
	}
	in := inSandbox{pod: pod, id: actions.SandboxID, config: sandbox, ips: ips, status: status}
	return result, errors.Join(result.ResizeErr, m.startAll(ctx, in, actions.Start, &result))
}

func (m *Manager) failSandbox(ctx context.Context, pod *v1.Pod, err error) error {
	m.opts.Events.WarnFailure(ctx, pod, "", "FailedCreatePodSandBox",
		fmt.Sprintf("Failed to create pod sandbox: %v", err))
	return fmt.Errorf("sandbox: %w", err)
}

func (m *Manager) runSandbox(ctx context.Context, pod *v1.Pod, config *runtimeapi.PodSandboxConfig) (string, error) {
	if err := markLogs(config.GetLogDirectory(), m.opts.Runtime.Owner()); err != nil {
		return "", err
	}
	handler := ""
	if class := pod.Spec.RuntimeClassName; class != nil && *class != "" {
		var err error
		if handler, err = m.opts.RuntimeHandler(ctx, *class); err != nil {
			return "", err
		}
	}
	return m.opts.Runtime.RunPodSandbox(ctx, config, handler)
}

// newAddresses returns the addresses of a new sandbox, or none for a pod in the host's network.
func (m *Manager) newAddresses(ctx context.Context, pod *v1.Pod, id string) ([]string, error) {
	answer, err := m.opts.Runtime.PodSandboxStatus(ctx, id, false)
	if err != nil {
		m.opts.Events.WarnFailure(ctx, pod, "", "FailedPodSandBoxStatus",
			fmt.Sprintf("Unable to get pod sandbox status: %v", err))
		return nil, fmt.Errorf("status of the new sandbox: %w", err)
	}
	if pod.Spec.HostNetwork {
		return nil, nil
	}
	network := answer.GetStatus().GetNetwork()
	if network.GetIp() == "" {
		return nil, m.failSandbox(ctx, pod, errors.New("the new sandbox has no address"))
	}
	ips := []string{network.GetIp()}
	for _, more := range network.GetAdditionalIps() {
		ips = append(ips, more.GetIp())
	}
	return ips, nil
}

// inSandbox is the sandbox that containers start in.
type inSandbox struct {
	pod    *v1.Pod
	id     string
	config *runtimeapi.PodSandboxConfig
	ips    []string
	// status is the pod's status before this sync started any container.
	status *model.PodStatus
}

// startAll starts the containers in order. If a container fails, startAll starts the others, because no container in
// starts has to wait for another.
func (m *Manager) startAll(ctx context.Context, in inSandbox, starts []containerStart, result *Result) error {
	var errs []error
	for _, start := range starts {
		if m.backsOff(in.pod, start, result) {
			continue
		}
		again, err := m.start(ctx, in, start)
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
	}
	return errors.Join(errs...)
}

// backsOff reports whether a container waits for the end of its crash back-off, and adds the reason to result.
func (m *Manager) backsOff(pod *v1.Pod, start containerStart, result *Result) bool {
	wait := m.crashPause(pod, start)
	if wait == 0 {
		return false
	}
	// The texts are the kubelet's: tools look for them.
	name, in := start.Spec.Name, fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
	m.record(pod, name, true)("BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, in))
	result.wait(name, &model.ReasonError{Reason: model.ReasonCrashLoopBackOff, Err: fmt.Errorf(
		"back-off %s restarting failed container=%s pod=%s", m.crashes.Pause(crashKey(pod, start)), name, in)}, wait)
	return true
}

// crashKey is the key of a container's back-off.
func crashKey(pod *v1.Pod, start containerStart) string {
	return string(pod.UID) + "_" + start.Spec.Name + "_" + model.ContainerHash(start.Spec)
}

// crashPause returns the time until a container may start again. Before it returns 0, it counts the container's last
// end, if there is one, as a crash for the next back-off.
func (m *Manager) crashPause(pod *v1.Pod, start containerStart) time.Duration {
	if start.Ended.IsZero() {
		return 0
	}
	key := crashKey(pod, start)
	if wait := m.crashes.Remaining(key, start.Ended); wait > 0 {
		return wait
	}
	m.crashes.Fail(key, start.Ended)
	return 0
}

// Forget drops the back-offs of a pod.
func (m *Manager) Forget(pod *v1.Pod) {
	prefix := string(pod.UID) + "_"
	m.crashes.Forget(func(key string) bool { return strings.HasPrefix(key, prefix) })
	m.opts.Images.Forget(string(pod.UID))
}

func (m *Manager) record(pod *v1.Pod, container string, warning bool) func(reason, message string) {
	return func(reason, message string) {
		m.opts.Events.Record(
			events.Event{Pod: pod, Container: container, Warning: warning, Reason: reason, Message: message})
	}
}
