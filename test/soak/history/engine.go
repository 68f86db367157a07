package history

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Container is a pod's container as the engine reports it.
type Container struct {
	ID, PodUID, Pod, Name string
	Attempt               int
	// Sandbox says that it only holds the pod's namespaces.
	Sandbox bool
	// Created, Started and Ended are times by the engine's clock. Each is zero until its event.
	Created, Started, Ended time.Time
	// Starts is how often it was started.
	Starts   int
	Running  bool
	ExitCode int
	// Removed says that the engine no longer has the container.
	Removed bool
}

// Engine is all containers of pods that one observer has seen on an engine. It is safe for concurrent use.
type Engine struct {
	mu         sync.Mutex
	containers map[string]*Container
}

// Labels and values that mark a pod's containers. Kubelets set the first three labels, and CRI servers for Docker set
// the rest.
const (
	labelUID     = "io.kubernetes.pod.uid"
	labelPod     = "io.kubernetes.pod.name"
	labelName    = "io.kubernetes.container.name"
	labelKind    = "io.kubernetes.docker.type"
	kindSandbox  = "podsandbox"
	namePrefix   = "k8s_"
	namedAttempt = 5 // k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT
)

// See records that a container exists. Containers that belong to no pod are left out.
func (e *Engine) See(id, name string, labels map[string]string, created time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.containers[id]; known || labels[labelUID] == "" ||
		!strings.HasPrefix(strings.TrimPrefix(name, "/"), namePrefix) {
		return
	}
	attempt := 0
	if parts := strings.Split(name, "_"); len(parts) > namedAttempt {
		attempt, _ = strconv.Atoi(parts[namedAttempt]) // not a number if the name is not a kubelet's
	}
	if e.containers == nil {
		e.containers = make(map[string]*Container)
	}
	e.containers[id] = &Container{
		ID: id, PodUID: labels[labelUID], Pod: labels[labelPod], Name: labels[labelName],
		Attempt: attempt, Sandbox: labels[labelKind] == kindSandbox, Created: created,
	}
}

// Start records a start. Reports of one start by several events and lists count once.
func (e *Engine) Start(id string, at time.Time) {
	e.change(id, func(c *Container) {
		if !at.After(c.Started.Add(sameMoment)) {
			return
		}
		c.Started, c.Running = at, true
		c.Starts++
	})
}

// sameMoment is the largest difference between the time stamps of one start or end in an event and in an inspection.
const sameMoment = 2 * time.Second

// End records an end.
func (e *Engine) End(id string, at time.Time, exitCode int) {
	e.change(id, func(c *Container) {
		if at.Before(c.Started.Add(-sameMoment)) {
			return // a repeated report of an earlier end
		}
		c.Running, c.Ended, c.ExitCode = false, at, exitCode
	})
}

// Remove records that a container was removed.
func (e *Engine) Remove(id string) {
	e.change(id, func(c *Container) { c.Removed, c.Running = true, false })
}

// Only takes the ids of all existing containers, and records that all other containers were removed.
func (e *Engine) Only(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, c := range e.containers {
		if !slices.Contains(ids, id) {
			c.Removed, c.Running = true, false
		}
	}
}

func (e *Engine) change(id string, change func(*Container)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.containers[id]; c != nil {
		change(c)
	}
}

// Containers returns all containers, the oldest first.
func (e *Engine) Containers() []Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Container, 0, len(e.containers))
	for c := range maps.Values(e.containers) {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Container) int { return a.Created.Compare(b.Created) })
	return all
}
