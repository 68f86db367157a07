package history

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Now returns what differs at this moment. On a node something is always under way, so callers repeat Now until nothing
// differs or their time is over.
func Now(engine *Engine, api *API) (differences []Difference) {
	pods, _, _ := api.view()
	containers := make(map[string]Container)
	for _, c := range engine.Containers() {
		containers[c.ID] = c
	}
	for _, p := range pods {
		if p.Gone.IsZero() {
			differences = append(differences, p.differs(containers)...)
		}
	}
	for _, c := range containers {
		if c.Running {
			if rule, says := c.belongs(pods); rule != "" {
				differences = append(differences,
					Difference{Rule: rule, Pod: c.Pod, Container: c.Name, Engine: c.String(), API: says})
			}
		}
	}
	return differences
}

// differs compares the statuses of a pod's containers with the engine.
func (p Pod) differs(containers map[string]Container) (differences []Difference) {
	for name, reported := range p.Current {
		c, known := containers[reported.ID]
		says := ""
		if known {
			says = c.String()
		}
		if reported.Running && !c.Running {
			differences = append(differences,
				Difference{Rule: NotRunning, Pod: p.Name, Container: name, Engine: says, API: reported.String()})
		}
		if p.Ready && !reported.Running && !(reported.Ended && reported.ExitCode == 0) { // an init container has ended
			differences = append(differences,
				Difference{Rule: ReadyWithout, Pod: p.Name, Container: name, Engine: says, API: reported.String()})
		}
	}
	return differences
}

// belongs returns the rule that a running container breaks, empty for none, and its state in the API server.
func (c Container) belongs(pods map[string]Pod) (rule, says string) {
	p, known := pods[c.PodUID]
	switch {
	case !known:
		return PodGone, "no such pod"
	case !p.Gone.IsZero():
		return PodGone, "gone since " + p.Gone.Format("15:04:05")
	case c.Sandbox:
		return "", ""
	case p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed:
		return PodOver, strings.TrimSpace(string(p.Phase) + " " + p.Reason)
	}
	if reported := p.Current[c.Name]; !reported.Running || reported.ID != c.ID {
		return NotReported, reported.String()
	}
	return "", ""
}
