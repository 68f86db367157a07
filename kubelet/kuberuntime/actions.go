package kuberuntime

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Probes are the probers' results, by container id.
type Probes struct {
	// LivenessFailed holds the containers whose liveness or startup probe failed for good.
	LivenessFailed map[string]bool
	// Started is true for running containers that have passed their startup probe, or have none.
	Started map[string]bool
}

// containerKill is a container to be killed, and the reason.
type containerKill struct {
	Container model.ContainerStatus
	// Spec is nil if the pod no longer has the container.
	Spec *v1.Container
	// Message is the event's text; empty means a text without a reason.
	Message string
	// ProbeGrace is the failed probe's own grace period in seconds, nil for the pod's.
	ProbeGrace *int64
}

// containerStart is a container to be started.
type containerStart struct {
	Spec *v1.Container
	Kind model.Kind
	// Attempt is one more than the last attempt.
	Attempt uint32
	// Ended is the end of the last finished attempt, for the crash back-off; zero if there is none. As in the kubelet,
	// an attempt that is about to be killed for its probes does not count.
	Ended time.Time
}

// podActions are the actions that a sync takes for a pod.
type podActions struct {
	// KillSandbox says to stop all containers and all sandboxes, dead ones too, before anything else. With
	// CreateSandbox, a new sandbox follows at once.
	KillSandbox bool
	// CreateSandbox says to create a sandbox with the number Attempt.
	CreateSandbox bool
	Attempt       uint32
	// SandboxID is the sandbox to use if CreateSandbox is false.
	SandboxID string
	// RestartAll is the container whose exit restarts all containers of the pod. It comes before all other actions.
	RestartAll *containerStart
	// Kill are containers to kill while the others stay.
	Kill []containerKill
	// Resized says that the resources of the pod change, in place or with a restart.
	Resized bool
	// Resize are running containers whose resources are to be changed in place.
	Resize []containerResize
	// Start has the containers to start now, in order. Init containers that must wait for other containers start in a
	// later sync.
	Start []containerStart
}

func (a *podActions) nothing() bool {
	return !a.KillSandbox && !a.CreateSandbox && a.RestartAll == nil && len(a.Kill) == 0 && len(a.Resize) == 0 &&
		len(a.Start) == 0
}

// actuated is allocation.Manager.Actuated.
type actuated func(types.UID, *v1.Container, *model.ContainerStatus) (resources v1.ResourceRequirements, known bool)

// computePodActions compares the pod, which has its allocated resources, with its status in the runtime. It has no side
// effects.
func computePodActions(pod *v1.Pod, status *model.PodStatus, probes Probes, actuated actuated) podActions {
	c := computation{pod: pod, status: status, probes: probes, actuated: actuated}
	if sandbox, _ := model.UsableSandbox(pod, status); sandbox != nil {
		c.actions.SandboxID, c.actions.Attempt = sandbox.ID, sandbox.Attempt
		if source, spec := model.RestartSource(&pod.Spec, status); source != nil {
			c.actions.RestartAll = &containerStart{Spec: spec, Ended: source.FinishedAt}
			return c.actions
		}
		c.inSandbox()
		return c.actions
	}
	c.newSandbox()
	return c.actions
}

type computation struct {
	pod      *v1.Pod
	status   *model.PodStatus
	probes   Probes
	actuated actuated
	actions  podActions
}

// newSandbox replaces the sandbox, unless none of its containers would run again. Existing sandboxes are stopped first:
// a dead sandbox keeps its address and host ports until then.
func (c *computation) newSandbox() {
	c.actions.KillSandbox = len(c.status.Sandboxes) > 0 || c.status.Running()
	if len(c.status.Sandboxes) > 0 {
		c.actions.Attempt = c.status.Sandboxes[0].Attempt + 1
	}
	if !c.mayRestart() && len(c.status.Containers) > 0 {
		c.actions.KillSandbox = true // the containers ended with the sandbox and must not run twice
		return
	}
	var starts []containerStart
	for i := range c.pod.Spec.Containers {
		spec := &c.pod.Spec.Containers[i]
		last := c.status.Container(spec.Name)
		if last != nil && last.State == model.StateExited && !restarts(c.pod, model.App, spec, last) {
			continue
		}
		starts = append(starts, c.start(spec, model.App))
	}
	if len(starts) == 0 {
		c.actions.KillSandbox = true
		return
	}
	c.actions.CreateSandbox = true
	if len(c.pod.Spec.InitContainers) > 0 {
		// A new sandbox has a new network, so all init containers run again, one after the other.
		first := &c.pod.Spec.InitContainers[0]
		starts = []containerStart{c.start(first, model.InitKind(first))}
	}
	c.actions.Start = starts
}

// mayRestart reports whether any app container may start a second time.
func (c *computation) mayRestart() bool {
	return c.pod.Spec.RestartPolicy != v1.RestartPolicyNever ||
		slices.ContainsFunc(c.pod.Spec.Containers, func(spec v1.Container) bool {
			return len(spec.RestartPolicyRules) > 0 ||
				model.RestartPolicyOf(&c.pod.Spec, &spec) != v1.ContainerRestartPolicyNever
		})
}

// inSandbox decides about the containers of a usable sandbox.
func (c *computation) inSandbox() {
	c.killUnknown()
	c.ephemeralContainers()
	initialized := c.initContainers()
	alive := 0
	for i := range c.pod.Spec.Containers {
		if c.appContainer(&c.pod.Spec.Containers[i], initialized) {
			alive++
		}
	}
	// Sidecars end with the last app container.
	if alive == 0 && initialized || !initialized && c.initFailedForGood() {
		c.actions = podActions{KillSandbox: true, SandboxID: c.actions.SandboxID, Attempt: c.actions.Attempt}
	}
}

// ephemeralContainers starts the ephemeral containers that were never created, whatever the state of other containers
// (KEP-277).
func (c *computation) ephemeralContainers() {
	for i := range c.pod.Spec.EphemeralContainers {
		spec := model.AsContainer(&c.pod.Spec.EphemeralContainers[i])
		if c.status.Container(spec.Name) == nil {
			c.actions.Start = append(c.actions.Start, c.start(spec, model.Ephemeral))
		}
	}
}

// killUnknown kills running containers that the pod no longer has, and older attempts that still run.
func (c *computation) killUnknown() {
	for _, running := range c.status.Containers {
		if running.State != model.StateRunning {
			continue
		}
		spec, _ := model.FindContainer(&c.pod.Spec, running.Name)
		switch newest := c.status.Container(running.Name); {
		case spec == nil:
			c.kill(running, nil, stopping(running.Name, "the pod has no container of this name any more"))
		case newest.ID != running.ID:
			c.kill(running, spec, stopping(running.Name, "a newer attempt of the container exists"))
		}
	}
}

// appContainer decides about one container of spec.containers. It returns whether the container runs or is to run.
func (c *computation) appContainer(spec *v1.Container, initialized bool) bool {
	observed := c.status.Container(spec.Name)
	if observed != nil && observed.State == model.StateRunning {
		why, again := c.mustGo(spec, model.App, observed)
		if why == "" {
			c.resize(spec, observed)
			return true
		}
		c.kill(*observed, spec, why)
		if !again {
			return false
		}
	} else if observed != nil && !restarts(c.pod, model.App, spec, observed) {
		return false
	}
	if initialized {
		c.actions.Start = append(c.actions.Start, c.start(spec, model.App))
	}
	return true
}

// mustGo returns the event's text for a running container that must be killed, or "" if it stays. Again reports whether
// the container then starts again.
func (c *computation) mustGo(
	spec *v1.Container, kind model.Kind, observed *model.ContainerStatus,
) (why string, again bool) {
	switch {
	case observed.Hash != model.ContainerHash(spec):
		return killText(spec, kind, "definition changed", true), true
	case c.probes.LivenessFailed[observed.ID]:
		probe := "liveness"
		if !c.probes.Started[observed.ID] {
			probe = "startup"
		}
		again = c.restartsAfterProbe(spec, kind)
		return killText(spec, kind, "failed "+probe+" probe", again), again
	case allocation.Restarts(spec, c.changed(spec, observed)):
		c.actions.Resized = true
		return fmt.Sprintf("Container %s resize requires restart", spec.Name), true
	default:
		return "", true
	}
}

// killText returns the kubelet's text of the event of a container that is killed: tools look for it.
func killText(spec *v1.Container, kind model.Kind, what string, again bool) string {
	text := inText(kind) + " " + spec.Name + " " + what
	if kind == model.App && again {
		text += ", will be restarted"
	}
	return text
}

// inText returns the kubelet's words for a kind of container in the text of an event.
func inText(kind model.Kind) string {
	if kind == model.App {
		return "Container"
	}
	return "Init container"
}

// restartsAfterProbe reports whether a container that is killed for a failed probe runs again. Its exit code does not
// matter.
func (c *computation) restartsAfterProbe(spec *v1.Container, kind model.Kind) bool {
	return kind == model.Sidecar || model.RestartPolicyOf(&c.pod.Spec, spec) != v1.ContainerRestartPolicyNever
}

func (c *computation) kill(container model.ContainerStatus, spec *v1.Container, message string) {
	k := containerKill{Container: container, Spec: spec, Message: message}
	if spec != nil && c.probes.LivenessFailed[container.ID] {
		k.ProbeGrace = probeGrace(spec, c.probes.Started[container.ID])
	}
	c.actions.Kill = append(c.actions.Kill, k)
}

// probeGrace is the failed probe's own grace period. The startup probe failed if the container has not started, else
// the liveness probe.
func probeGrace(spec *v1.Container, started bool) *int64 {
	probe := spec.LivenessProbe
	if !started {
		probe = spec.StartupProbe
	}
	if probe == nil {
		return nil
	}
	return probe.TerminationGracePeriodSeconds
}

func (c *computation) start(spec *v1.Container, kind model.Kind) containerStart {
	start := containerStart{Spec: spec, Kind: kind}
	if exited := c.status.Exited(spec.Name); exited != nil {
		start.Ended = exited.FinishedAt
	}
	if last := c.status.Container(spec.Name); last != nil {
		start.Attempt = last.Attempt + 1
		if last.State == model.StateUnknown {
			c.kill(*last, spec,
				fmt.Sprintf("%s is in %q state, try killing it before restart", inText(kind), last.State))
		}
	}
	return start
}

// restarts reports whether a container that does not run must start or restart.
func restarts(pod *v1.Pod, kind model.Kind, spec *v1.Container, observed *model.ContainerStatus) bool {
	if kind == model.Sidecar || observed.State != model.StateExited {
		return true // it never started, or its state is unknown
	}
	if kind == model.Init && observed.ExitCode == 0 {
		return false
	}
	return model.RestartsAfter(&pod.Spec, spec, observed.ExitCode)
}
