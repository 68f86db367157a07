// Package cluster connects to a Kubernetes API server. Of client-go it takes the typed clients of the core and
// coordination groups only: the whole set of typed clients would make the program half as large again.
package cluster

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// requestTimeout bounds each request that is no watch, as the kubelet does for its heartbeats; without it a server
	// that is gone would hold its caller until TCP gives up.
	requestTimeout = 10 * time.Second
	// queries and burst limit how much one node asks of the server, with the kubelet's values.
	queries, burst = 50, 100
)

// Clients are the ways to the API server that a kubelet needs. They are safe for concurrent use.
type Clients struct {
	// Core and Coordination bound each request; Watch is Core for watches, which last.
	Core         corev1.CoreV1Interface
	Coordination coordinationv1.CoordinationV1Interface
	Watch        corev1.CoreV1Interface
	// Server is the address, for messages.
	Server string
}

// Connect reads a kubeconfig file and makes the clients. Nothing is sent: a server that is away is met with the first
// request, and may come later. A file that cannot be read, or names certificates that cannot, is an error.
func Connect(kubeconfig, userAgent string) (*Clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = queries, burst
	rest.AddUserAgent(config, userAgent)
	bounded := rest.CopyConfig(config)
	bounded.Timeout = requestTimeout
	clients := &Clients{Server: config.Host}
	if clients.Core, err = corev1.NewForConfig(bounded); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if clients.Coordination, err = coordinationv1.NewForConfig(bounded); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if clients.Watch, err = corev1.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return clients, nil
}
