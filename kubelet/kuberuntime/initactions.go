package kuberuntime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// initContainers decides about the init containers and sidecars. It returns whether the app containers may start.
//
// Init containers and sidecars start one after the other, each when its predecessor has passed. An init container has
// passed when it has succeeded, a sidecar when it has started and passed its startup probe. If a container exists, its
// predecessors have passed, even if the runtime no longer has them.
func (c *computation) initContainers() (initialized bool) {
	specs := c.pod.Spec.InitContainers
	reached := c.furthest()
	for i := range specs {
		spec, kind := &specs[i], model.InitKind(&specs[i])
		passed := i < reached
		if kind == model.Sidecar {
			if !c.sidecar(spec, passed) && !passed {
				return false
			}
			continue
		}
		if !passed && !c.initContainer(spec) {
			return false
		}
	}
	return true
}

// furthest is the index of the last init container that exists in this sandbox. It is len(InitContainers) if an app
// container exists, because then all init containers have passed.
func (c *computation) furthest() int {
	for i := range c.pod.Spec.Containers {
		if c.inThisSandbox(c.status.Container(c.pod.Spec.Containers[i].Name)) {
			return len(c.pod.Spec.InitContainers)
		}
	}
	for i := len(c.pod.Spec.InitContainers) - 1; i > 0; i-- {
		if c.inThisSandbox(c.status.Container(c.pod.Spec.InitContainers[i].Name)) {
			return i
		}
	}
	return 0
}

func (c *computation) inThisSandbox(observed *model.ContainerStatus) bool {
	return observed != nil && observed.SandboxID == c.actions.SandboxID
}

// initContainer decides about an init container that has not passed yet. It returns whether the container has
// succeeded.
func (c *computation) initContainer(spec *v1.Container) (done bool) {
	observed := c.status.Container(spec.Name)
	switch {
	case !c.inThisSandbox(observed):
		c.actions.Start = append(c.actions.Start, c.start(spec, model.Init))
	case observed.State == model.StateRunning:
		if observed.Hash != model.ContainerHash(spec) {
			c.kill(*observed, spec, killText(spec, model.Init, "definition changed", true))
			c.actions.Start = append(c.actions.Start, c.start(spec, model.Init))
		}
	case observed.State == model.StateExited && observed.ExitCode == 0:
		return true
	case restarts(c.pod, model.Init, spec, observed):
		c.actions.Start = append(c.actions.Start, c.start(spec, model.Init))
	}
	return false
}

// sidecar decides about a sidecar, and returns whether it has started. A sidecar that ended always starts again.
func (c *computation) sidecar(spec *v1.Container, passed bool) (started bool) {
	observed := c.status.Container(spec.Name)
	if !c.inThisSandbox(observed) || observed.State != model.StateRunning {
		c.actions.Start = append(c.actions.Start, c.start(spec, model.Sidecar))
		return false
	}
	if why, _ := c.mustGo(spec, model.Sidecar, observed); why != "" {
		c.kill(*observed, spec, why)
		c.actions.Start = append(c.actions.Start, c.start(spec, model.Sidecar))
		return false
	}
	c.resize(spec, observed)
	return passed || spec.StartupProbe == nil || c.probes.Started[observed.ID]
}

// initFailedForGood reports whether an init container failed and must not run again. The pod has failed then.
func (c *computation) initFailedForGood() bool {
	for i := range c.pod.Spec.InitContainers {
		spec := &c.pod.Spec.InitContainers[i]
		observed := c.status.Container(spec.Name)
		if !model.IsSidecar(spec) && c.inThisSandbox(observed) && observed.State == model.StateExited &&
			observed.ExitCode != 0 &&
			!restarts(c.pod, model.Init, spec, observed) {
			return true
		}
	}
	return false
}
