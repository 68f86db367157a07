// Package runtimeclass finds the runtime handler of a RuntimeClass (pkg/kubelet/runtimeclass).
package runtimeclass

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
)

// timeout bounds a request to the API server.
const timeout = 10 * time.Second

// Manager asks the API server, and uses its last answer while the server is away. It sends one request per new sandbox
// with a class. Such requests are too rare for a watch. It is safe for concurrent use.
type Manager struct {
	classes nodev1.RuntimeClassesGetter

	mu       sync.Mutex
	handlers map[string]string
}

// New makes a Manager.
func New(classes nodev1.RuntimeClassesGetter) *Manager {
	return &Manager{classes: classes, handlers: map[string]string{}}
}

// Handler returns the runtime handler of a class.
func (m *Manager) Handler(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	class, err := m.classes.RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.handlers[name] = class.Handler
		return class.Handler, nil
	case apierrors.IsNotFound(err):
		delete(m.handlers, name)
	case m.handlers[name] != "":
		return m.handlers[name], nil
	}
	return "", fmt.Errorf("spec.runtimeClassName: RuntimeClass %q: %w", name, err)
}
