package prober

import (
	"cmp"
	"slices"

	"github.com/criadapter/criadapter/kubelet/model"
)

// The results in the kubelet's metric.
const (
	resultSuccessful = "successful"
	resultFailed     = "failed"
	resultUnknown    = "unknown"
)

// Counts returns the number of results by pod, container, probe and result, in a fixed order.
func (m *Manager) Counts() []model.ProbeCount {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []model.ProbeCount
	for _, counts := range m.counts {
		for count, times := range counts {
			count.Count = times
			all = append(all, count)
		}
	}
	slices.SortFunc(all, func(a, b model.ProbeCount) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID),
			cmp.Compare(a.Container, b.Container), cmp.Compare(a.Probe, b.Probe), cmp.Compare(a.Result, b.Result))
	})
	return all
}

// count counts the result of one probe. The result of a worker that has been stopped does not count.
func (m *Manager) count(w *worker, why string, err error) {
	result := resultSuccessful
	switch {
	case err != nil:
		result = resultUnknown
	case why != "":
		result = resultFailed
	}
	pod := w.target.pod
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.workers[w.key] != w {
		return
	}
	counts := m.counts[pod.UID]
	if counts == nil {
		counts = map[model.ProbeCount]uint64{}
		m.counts[pod.UID] = counts
	}
	counts[model.ProbeCount{
		Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Container: w.target.container.Name,
		Probe: string(w.key.probe), Result: result,
	}]++
}
