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
	Running                 bool
	ExitCode                int
	// Removed says that the engine no longer has the container.
	Removed bool
	// events and inspected have the container's start times, without duplicates: events from the engine's events,
	// inspected from inspections.
	events, inspected []time.Time
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
		attempt, _ = strconv.Atoi(parts[namedAttempt]) // 0 if the name is not from a kubelet
	}
	if e.containers == nil {
		e.containers = make(map[string]*Container)
	}
	e.containers[id] = &Container{
		ID: id, PodUID: labels[labelUID], Pod: labels[labelPod], Name: labels[labelName],
		Attempt: attempt, Sandbox: labels[labelKind] == kindSandbox, Created: created,
	}
}

// Start records a start event. The engine may repeat the event with the same time.
func (e *Engine) Start(id string, at time.Time) {
	e.change(id, func(c *Container) { c.start(&c.events, at) })
}

// Inspect records the last start that an inspection shows. An event of the same start may have another time.
func (e *Engine) Inspect(id string, started time.Time) {
	e.change(id, func(c *Container) { c.start(&c.inspected, started) })
}

// start adds a time to one of the container's two lists. The container runs since then, unless the start is known.
func (c *Container) start(times *[]time.Time, at time.Time) {
	before := c.Starts()
	if !slices.ContainsFunc(*times, at.Equal) {
		*times = append(*times, at)
	}
	if c.Starts() > before && at.After(c.Started) {
		c.Started, c.Running = at, true
	}
}

// Starts is how often the container was started. Each event is a start, even soon after another event. An inspection
// that matches no event within sameMoment is one more start. Each event matches one inspection at most.
func (c *Container) Starts() int {
	events := slices.SortedFunc(slices.Values(c.events), time.Time.Compare)
	starts := len(events)
	for _, at := range slices.SortedFunc(slices.Values(c.inspected), time.Time.Compare) {
		same := slices.IndexFunc(events, func(event time.Time) bool { return at.Sub(event).Abs() <= sameMoment })
		if same < 0 {
			starts++
		} else {
			events = slices.Delete(events, same, same+1)
		}
	}
	return starts
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

// Existing records which containers were removed. ids are the ids of all existing containers.
func (e *Engine) Existing(ids []string) {
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
