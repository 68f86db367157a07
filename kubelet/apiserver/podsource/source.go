// Package podsource is the source of the pods that an API server has for this node, as NewSourceApiserver of
// pkg/kubelet/config: all pods whose spec.nodeName is the node's are listed and watched, mirror pods among them, and
// each change hands the whole set to the pod config. What it handed over stays while the server is away.
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
	// Pods is the client. It must not bound its requests: watches last.
	Pods corev1.PodsGetter
	// NodeName selects the pods: those whose spec.nodeName it is.
	NodeName string
	// Problem is called when what keeps the server from being asked changed: with nil when it can be again. Nil logs it.
	Problem func(where string, err error)
	// retry says when a server that is away is asked again; zero values are the kubelet's.
	retry reflector.Retry
}

// PodConfig receives the pods; *podconfig.PodConfig is one.
type PodConfig interface {
	// Set takes the whole set of a source's pods, which are not changed afterwards.
	Set(ctx context.Context, source string, pods []*v1.Pod) error
}

// Source is the source of pods that an API server has for this node.
type Source struct {
	opts   Options
	config PodConfig
}

// apiServer names the source in problems.
const apiServer = "API server"

// New makes the source. Nothing is requested before Run.
func New(opts Options, config PodConfig) *Source {
	return &Source{opts: opts, config: config}
}

// Run lists and watches the pods until ctx ends, and returns ctx's error then. Many changes at one time are set as one.
func (s *Source) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	pods := newPodStore()
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

// problem reports that the server cannot be asked any more, and with nil that it can be again.
func (s *Source) problem(ctx context.Context, err error) {
	switch {
	case s.opts.Problem != nil:
		s.opts.Problem(apiServer, err)
	case err != nil:
		log.G(ctx).WithError(err).WithField("source", model.SourceAPI).Error("pods cannot be watched, those listed before stay")
	default:
		log.G(ctx).WithField("source", model.SourceAPI).Info("pods are watched")
	}
}

// podStore is what the server has for this node. It is safe for concurrent use.
type podStore struct {
	// changed holds a value when list would return something new.
	changed chan struct{}

	mu   sync.Mutex
	pods map[string]*v1.Pod // by full name: of two UIDs under one name the server has one at a time
}

func newPodStore() *podStore {
	return &podStore{changed: make(chan struct{}, 1), pods: map[string]*v1.Pod{}}
}

func (s *podStore) list() []*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pods))
}

// Replace is reflector.Store.
func (s *podStore) Replace(pods []*v1.Pod) {
	s.change(func() {
		old := s.pods
		s.pods = make(map[string]*v1.Pod, len(pods))
		for _, pod := range pods {
			s.pods[model.FullName(pod)] = fromServer(pod, old[model.FullName(pod)])
		}
	})
}

// Set is reflector.Store.
func (s *podStore) Set(pod *v1.Pod) {
	s.change(func() { s.pods[model.FullName(pod)] = fromServer(pod, s.pods[model.FullName(pod)]) })
}

// Delete is reflector.Store.
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
	default: // the value that waits there stands for this change, too
	}
}

// fromServer marks a pod as the server's, so that no annotation that somebody wrote makes it look static, and keeps
// when it was listed first. Defaults fill what an older server does not know; who wrote which field interests nobody
// here.
func fromServer(pod, known *v1.Pod) *v1.Pod {
	manifest.SetDefaults(pod)
	pod.ManagedFields = nil
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[model.AnnotationConfigSource] = model.SourceAPI
	pod.Annotations[model.AnnotationConfigSeen] = time.Now().Format(time.RFC3339Nano)
	if known != nil && known.UID == pod.UID {
		pod.Annotations[model.AnnotationConfigSeen] = known.Annotations[model.AnnotationConfigSeen]
	}
	return pod
}
