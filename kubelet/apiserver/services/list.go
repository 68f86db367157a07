package services

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/reflector"
	"github.com/criadapter/criadapter/kubelet/model"
)

// masterNamespace and masterName name the API server's own service, which pods of every namespace see.
const masterNamespace, masterName = v1.NamespaceDefault, "kubernetes"

// errUnknown is the error before the first list.
var errUnknown = errors.New(
	"the API server has not listed its services yet: a container that starts now would lack their variables")

// List has the API server's services. It is safe for concurrent use.
type List struct {
	services corev1.ServicesGetter

	mu    sync.RWMutex
	known bool
	all   map[types.NamespacedName]*v1.Service
}

// New makes an empty list, which Run fills. The client's requests must have no timeout, because watches last.
func New(services corev1.ServicesGetter) *List { return &List{services: services} }

// Run lists and watches the services until ctx ends, and then returns nil.
func (l *List) Run(ctx context.Context) error {
	reflector.Run(ctx, l.services.Services(metav1.NamespaceAll), reflector.Options[*v1.Service]{Store: store{l}})
	return nil
}

// Environment returns the variables for the pod's containers. The API server's service is always included. Services of
// the pod's namespace are included unless spec.enableServiceLinks is false. A service "kubernetes" of the pod's
// namespace replaces the API server's service. A static pod gets no variables, since it may start without a cluster.
// Environment returns an error before the first list.
func (l *List) Environment(pod *v1.Pod) (map[string]string, error) {
	if model.IsStatic(pod) {
		return nil, nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.known {
		return nil, errUnknown
	}
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	env := map[string]string{}
	own := types.NamespacedName{Namespace: pod.Namespace, Name: masterName}
	if !links || !hasVariables(l.all[own]) {
		variables(env, l.all[types.NamespacedName{Namespace: masterNamespace, Name: masterName}])
	}
	for name, service := range l.all {
		if links && name.Namespace == pod.Namespace {
			variables(env, service)
		}
	}
	return env, nil
}

// store is the reflector.Store of a List.
type store struct{ list *List }

func key(service *v1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// Replace implements reflector.Store.
func (s store) Replace(services []*v1.Service) {
	all := make(map[types.NamespacedName]*v1.Service, len(services))
	for _, service := range services {
		all[key(service)] = service
	}
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	s.list.all, s.list.known = all, true
}

// Set implements reflector.Store.
func (s store) Set(service *v1.Service) {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	s.list.all[key(service)] = service
}

// Delete implements reflector.Store.
func (s store) Delete(service *v1.Service) {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	delete(s.list.all, key(service))
}
