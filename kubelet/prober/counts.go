package prober

import (
	"cmp"
	"slices"

	"github.com/criadapter/criadapter/kubelet/model"
)

// How a probe ended, in the kubelet's words for its metric.
const (
	resultSuccessful = "successful"
	resultFailed     = "failed"
	resultUnknown    = "unknown"
)

// Counts returns how often the probes of the pods that are not forgotten ended how, in a fixed order.
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

// count counts one probe. A worker that was ended meanwhile has no say.
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
		Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Container: w.target.container.Name, Probe: string(w.key.probe), Result: result,
	}]++
}
