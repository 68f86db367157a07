package nodeapi

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cadvisor passes on the runtime's own metrics of pods and containers, which have cAdvisor's names. It answers 404 if
// the runtime has none.
func (s *reads) cadvisor(w http.ResponseWriter, r *http.Request) {
	out, err := s.runtimeMetrics(r.Context())
	if err == nil {
		out.write(w)
		return
	}
	code := http.StatusBadGateway
	if status.Code(err) == codes.Unimplemented {
		code = http.StatusNotFound
	}
	http.Error(w, "the runtime's metrics: "+err.Error(), code)
}

func (s *reads) runtimeMetrics(ctx context.Context) (*exposition, error) {
	descriptors, err := s.Stats.ListMetricDescriptors(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := s.Stats.ListPodSandboxMetrics(ctx)
	if err != nil {
		return nil, err
	}
	// The metrics do not name the pod's owner.
	sandboxes, err := s.Stats.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: s.Selector})
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{}
	for _, sandbox := range sandboxes {
		ours[sandbox.GetId()] = true
	}
	byName := map[string][]*runtimeapi.Metric{}
	for _, pod := range listed {
		if !ours[pod.GetPodSandboxId()] {
			continue
		}
		for _, metric := range pod.GetMetrics() {
			byName[metric.GetName()] = append(byName[metric.GetName()], metric)
		}
		for _, container := range pod.GetContainerMetrics() {
			for _, metric := range container.GetMetrics() {
				byName[metric.GetName()] = append(byName[metric.GetName()], metric)
			}
		}
	}
	var out exposition
	for _, descriptor := range descriptors {
		writeMetrics(&out, descriptor, byName[descriptor.GetName()])
	}
	return &out, nil
}

// writeMetrics writes a family. A metric whose values do not match its descriptor's keys is left out.
func writeMetrics(out *exposition, descriptor *runtimeapi.MetricDescriptor, metrics []*runtimeapi.Metric) {
	if len(metrics) == 0 {
		return
	}
	kind := gauge
	if metrics[0].GetMetricType() == runtimeapi.MetricType_COUNTER {
		kind = counter
	}
	samples := out.family(descriptor.GetName(), kind, descriptor.GetHelp())
	for _, metric := range metrics {
		keys, values := descriptor.GetLabelKeys(), metric.GetLabelValues()
		if len(keys) != len(values) || metric.GetValue() == nil {
			continue
		}
		labels := make([]label, len(keys))
		for i, key := range keys {
			labels[i] = label{key, values[i]}
		}
		var at time.Time
		if metric.GetTimestamp() != 0 {
			at = time.Unix(0, metric.GetTimestamp())
		}
		samples.sample(float64(metric.GetValue().GetValue()), at, labels...)
	}
}
