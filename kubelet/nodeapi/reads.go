package nodeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/podstats"
)

// Stats is the part of CRI for stats and metrics. cri.Runtime implements it.
type Stats interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListPodSandboxStats(ctx context.Context,
		filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
	ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error)
	ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error)
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Config is the content of /configz.
type Config struct {
	Node            string `json:"node"`
	Owner           string `json:"owner"`
	RuntimeEndpoint string `json:"runtimeEndpoint"`
	Runtime         string `json:"runtime"`
	Manifests       string `json:"manifests"`
	RootDir         string `json:"rootDir"`
	PodLogsDir      string `json:"podLogsDir"`
}

// Reads has the sources of both endpoints. Fields from Usage on may be nil.
type Reads struct {
	Config Config
	// Pods lists all pods with their statuses.
	Pods func() []*v1.Pod
	// Healthy returns nil while the kubelet works. RuntimeErr returns nil while the runtime can be used.
	Healthy, RuntimeErr func() error
	// Stats is the runtime. Selector limits the pods.
	Stats    Stats
	Selector map[string]string
	// Evented reports whether the runtime streams its events now.
	Evented func() bool
	// Usage returns the last known use of the local disk by pods. ClaimPaths returns the paths of a pod's claims by the
	// volumes' names.
	Usage      func() map[types.UID]podstats.Pod
	ClaimPaths func(*v1.Pod) map[string]string
	// Measured and Probes have the metrics of package metrics.
	Measured, Probes prometheus.Gatherer
	// SentEvents counts events for the API server by outcome. Nil means that there is no API server.
	SentEvents func() map[string]int64
}

// reads has the handlers that change nothing, for both endpoints.
type reads struct {
	Reads
	node    *nodeStats
	started time.Time
	// listed changes the pods for /pods. Nil shows them whole.
	listed func([]*v1.Pod) []*v1.Pod
}

func newReads(shown Reads) *reads {
	if shown.Usage == nil {
		shown.Usage = func() map[types.UID]podstats.Pod { return nil }
	}
	if shown.ClaimPaths == nil {
		shown.ClaimPaths = func(*v1.Pod) map[string]string { return nil }
	}
	for _, measured := range []*prometheus.Gatherer{&shown.Measured, &shown.Probes} {
		if *measured == nil {
			*measured = prometheus.NewRegistry()
		}
	}
	return &reads{Reads: shown, node: newNodeStats("/proc"), started: time.Now()}
}

// routes adds the handlers.
func (s *reads) routes(mux *http.ServeMux) {
	for path, handler := range map[string]http.HandlerFunc{
		"/pods":             s.pods,
		"/healthz":          s.healthz,
		"/configz":          func(w http.ResponseWriter, r *http.Request) { writeJSON(w, r, s.Config) },
		"/stats/summary":    s.summary,
		"/metrics":          s.metrics,
		"/metrics/cadvisor": s.cadvisor,
		"/metrics/resource": s.resource,
		"/metrics/probes":   s.probes,
	} {
		mux.HandleFunc("GET "+path, handler)
		mux.HandleFunc("GET "+path+"/{$}", handler)
	}
}

func writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.G(r.Context()).WithError(err).Debug("response was not sent completely")
	}
}

func (s *reads) pods(w http.ResponseWriter, r *http.Request) {
	pods := s.Pods()
	if s.listed != nil {
		pods = s.listed(pods)
	}
	writeJSON(w, r, podList(pods))
}

func podList(pods []*v1.Pod) v1.PodList {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	return list
}

func (s *reads) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.Healthy(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}
