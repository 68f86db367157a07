// Package podsource is the source of the pods that the API server has for this node, like NewSourceApiserver of
// pkg/kubelet/config. It lists and watches all pods with the node's spec.nodeName, including mirror pods. Each change
// passes the whole set to the pod config. The set stays while the server is away.
package podsource

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/reflector"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Options configure a Source. Pods and NodeName are required.
type Options struct {
	// Pods is the client. Its requests must have no timeout, because watches last.
	Pods corev1.PodsGetter
	// NodeName selects the pods by their spec.nodeName.
	NodeName string
	// Problem is called once with the reason why the server cannot be asked, and again when the reason changes. It is
	// called with nil when the server can be asked again. A nil Problem logs the reasons.
	Problem func(where string, err error)
	// retry sets the pauses before a retry. Zero values are the kubelet's.
	retry reflector.Retry
}

// PodConfig receives the pods. *podconfig.PodConfig implements it.
type PodConfig interface {
	// Set takes all pods of a source. The pods are not changed afterwards.
	Set(ctx context.Context, source string, pods []*v1.Pod) error
}

// Source is the source of pods that an API server has for this node.
type Source struct {
	opts   Options
	config PodConfig
}

// apiServer is the source's name in problems.
const apiServer = "API server"

// New makes the source. Nothing is requested before Run.
func New(opts Options, config PodConfig) *Source {
	return &Source{opts: opts, config: config}
}

// Run lists and watches the pods until ctx ends, and then returns ctx's error. Changes that come at the same time are
// passed on together.
func (s *Source) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	pods := &podStore{changed: make(chan struct{}, 1), pods: map[string]*v1.Pod{}}
	client := s.opts.Pods.Pods(metav1.NamespaceAll)
	following.Go(func() {
		reflector.Run(ctx, client, reflector.Options[*v1.Pod]{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.opts.NodeName).String(),
			Store:         pods,
			Problem:       func(err error) { s.problem(ctx, err) },
			Retry:         s.opts.retry,
		})
	})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pods.changed:
			if err := s.config.Set(ctx, model.SourceAPI, pods.list()); err != nil {
				return err
			}
		}
	}
}

// problem reports why the server cannot be asked, or with nil that it can be asked again.
func (s *Source) problem(ctx context.Context, err error) {
	switch {
	case s.opts.Problem != nil:
		s.opts.Problem(apiServer, err)
	case err != nil:
		log.G(ctx).WithError(err).WithField("source", model.SourceAPI).
			Error("pods cannot be watched, the last listed pods stay")
	default:
		log.G(ctx).WithField("source", model.SourceAPI).Info("pods are watched")
	}
}

// podStore has the server's pods for this node. It is safe for concurrent use.
type podStore struct {
	// changed wakes Run after a change. One value covers all changes until Run calls list.
	changed chan struct{}

	mu   sync.Mutex
	pods map[string]*v1.Pod // by full name: the server has one pod of a name at a time
}

func (s *podStore) list() []*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pods))
}

// Replace implements reflector.Store.
func (s *podStore) Replace(pods []*v1.Pod) {
	s.change(func() {
		old := s.pods
		s.pods = make(map[string]*v1.Pod, len(pods))
		for _, pod := range pods {
			s.pods[model.FullName(pod)] = fromServer(pod, old[model.FullName(pod)])
		}
	})
}

// Set implements reflector.Store.
func (s *podStore) Set(pod *v1.Pod) {
	s.change(func() { s.pods[model.FullName(pod)] = fromServer(pod, s.pods[model.FullName(pod)]) })
}

// Delete implements reflector.Store.
func (s *podStore) Delete(pod *v1.Pod) {
	s.change(func() {
		if known := s.pods[model.FullName(pod)]; known != nil && known.UID == pod.UID {
			delete(s.pods, model.FullName(pod))
		}
	})
}

func (s *podStore) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	select {
	case s.changed <- struct{}{}:
	default: // the waiting value covers this change, too
	}
}

// fromServer marks a pod as the server's, so no annotation can make it look static. It keeps the time when the pod was
// first listed, sets defaults that an older server lacks, and drops the managed fields.
func fromServer(pod, known *v1.Pod) *v1.Pod {
	manifest.SetDefaults(pod)
	pod.ManagedFields = nil
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, model.AnnotationConfigSource, model.SourceAPI)
	pod.Annotations[model.AnnotationConfigSeen] = time.Now().Format(time.RFC3339Nano)
	if known != nil && known.UID == pod.UID {
		pod.Annotations[model.AnnotationConfigSeen] = known.Annotations[model.AnnotationConfigSeen]
	}
	return pod
}
