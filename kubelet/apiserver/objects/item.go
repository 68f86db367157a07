package objects

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// object is a config map or a secret. The zero value is neither.
type object struct {
	configMap *v1.ConfigMap
	secret    *v1.Secret
}

// item is the cached state of one object, and the reflector.Store of its watch. It is safe for concurrent use.
type item struct {
	key volumekinds.Object
	// users counts the pods that name the object. The Manager's lock guards it.
	users int
	// cancel ends the watch; nil without a watch. The Manager's lock guards it.
	cancel context.CancelFunc
	// changed is called when the object's content changed.
	changed func()
	// synced is closed when the server has answered whether the object exists.
	synced chan struct{}

	mu        sync.Mutex
	hasSynced bool
	now       object
	problem   error
}

// set takes the server's current object.
func (i *item) set(now object) {
	i.mu.Lock()
	same := i.hasSynced && i.now.equal(now)
	i.now = now
	if !i.hasSynced {
		i.hasSynced = true
		close(i.synced)
	}
	i.mu.Unlock()
	if !same {
		i.changed()
	}
}

// fail stores the reason why the server cannot be asked, for callers of get. Nil means that it can be asked again.
func (i *item) fail(ctx context.Context, err error) {
	if err != nil {
		// The volumes that need the object report the error.
		log.G(ctx).WithError(err).WithField("object", i.key.String()).
			Debug("object cannot be watched, its last content stays")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.problem = err
}

// get returns the cached object.
func (i *item) get() (object, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !i.hasSynced && i.problem != nil:
		return object{}, fmt.Errorf("%s: %w: %w", i.key, errdefs.ErrUnavailable, i.problem)
	case !i.hasSynced:
		return object{}, fmt.Errorf("%s: the server has not answered yet: %w", i.key, errdefs.ErrUnavailable)
	case i.now == object{}:
		return object{}, fmt.Errorf("%s: %w", i.key, errdefs.ErrNotFound)
	}
	return i.now, nil
}

func (o object) equal(other object) bool {
	return equality.Semantic.DeepEqual(o.configMap, other.configMap) &&
		equality.Semantic.DeepEqual(o.secret, other.secret)
}

// immutable reports whether the object will never change.
func (o object) immutable() bool {
	return o.configMap != nil && o.configMap.Immutable != nil && *o.configMap.Immutable ||
		o.secret != nil && o.secret.Immutable != nil && *o.secret.Immutable
}

func ofConfigMap(m *v1.ConfigMap) object {
	m.ObjectMeta = identity(m.ObjectMeta)
	return object{configMap: m}
}

func ofSecret(s *v1.Secret) object {
	s.ObjectMeta = identity(s.ObjectMeta)
	return object{secret: s}
}

// identity leaves out metadata that does not matter to pods, so only a change of content counts.
func identity(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID}
}

// cell is the reflector.Store of one object.
type cell[T any] struct {
	item *item
	of   func(T) object
	// settled is called when the object cannot change again.
	settled func()
}

// Replace implements reflector.Store.
func (c cell[T]) Replace(objects []T) {
	if len(objects) == 0 {
		c.item.set(object{})
		return
	}
	c.Set(objects[0]) // a name has one object
}

// Set implements reflector.Store.
func (c cell[T]) Set(changed T) {
	now := c.of(changed)
	c.item.set(now)
	if now.immutable() {
		c.settled()
	}
}

// Delete implements reflector.Store.
func (c cell[T]) Delete(T) { c.item.set(object{}) }
