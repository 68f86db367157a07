package config

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/criadapter/criadapter/kubelet/follow"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// APIOptions configure an API. Pods and NodeName are required.
type APIOptions struct {
	// Pods is the client. It must not bound its requests: watches last.
	Pods corev1.PodsGetter
	// NodeName selects the pods: those whose spec.nodeName it is.
	NodeName string
	// Problem is called when what keeps the server from being asked changed: with nil when it can be again. Nil logs it.
	Problem func(where string, err error)
	// Retry says when a server that is away is asked again; zero values are the kubelet's.
	Retry follow.Retry
}

// API is the source of pods that an API server has for this node. What it told stays while the server is away.
type API struct {
	opts APIOptions
	mux  *Mux
}

// apiServer names the source in problems.
const apiServer = "API server"

// NewAPI makes the source. It asks nothing until Run.
func NewAPI(opts APIOptions, mux *Mux) *API {
	if opts.Problem == nil {
		opts.Problem = func(where string, err error) {
			if err != nil {
				logrus.WithError(err).Error("The " + where + " cannot be asked for pods; those that it named before stay")
				return
			}
			logrus.Info("The " + where + " is watched for pods")
		}
	}
	return &API{opts: opts, mux: mux}
}

// Run tells the server's pods until ctx ends, and returns ctx's error then. Many changes at one time are told as one set.
func (a *API) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	pods := newPodStore()
	client := a.opts.Pods.Pods(metav1.NamespaceAll)
	following.Go(func() {
		follow.Run(ctx, client, follow.Options[*v1.Pod]{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", a.opts.NodeName).String(),
			Store:         pods,
			Problem:       func(err error) { a.opts.Problem(apiServer, err) },
			Retry:         a.opts.Retry,
		})
	})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pods.changed:
			if err := a.mux.Set(ctx, model.SourceAPI, pods.list()); err != nil {
				return err
			}
		}
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

// Replace is follow.Store.
func (s *podStore) Replace(pods []*v1.Pod) {
	s.change(func() {
		old := s.pods
		s.pods = make(map[string]*v1.Pod, len(pods))
		for _, pod := range pods {
			s.pods[model.FullName(pod)] = fromServer(pod, old[model.FullName(pod)])
		}
	})
}

// Set is follow.Store.
func (s *podStore) Set(pod *v1.Pod) {
	s.change(func() { s.pods[model.FullName(pod)] = fromServer(pod, s.pods[model.FullName(pod)]) })
}

// Delete is follow.Store.
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
	default: // the one that waits there tells of this change, too
	}
}

// fromServer marks a pod as the server's, so that no annotation that somebody wrote makes it look static, and keeps when
// it was seen first. Defaults fill what an older server does not know; who wrote which field interests nobody here.
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
