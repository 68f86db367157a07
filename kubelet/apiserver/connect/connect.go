// Package connect makes the clients of a Kubernetes API server from a kubeconfig file, like cmd/kubelet/app. It imports
// only the needed typed clients of client-go: all of them would make the program half as large again.
package connect

import (
	"fmt"
	"time"

	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// requestTimeout bounds each request except watches, as the kubelet does for its heartbeats. Without it a caller
	// would wait for a missing server until TCP gives up.
	requestTimeout = 10 * time.Second
	// queries and burst limit the requests of one node per second, with the kubelet's values.
	queries, burst = 50, 100
)

// Clients are a kubelet's clients of the API server. They are safe for concurrent use.
type Clients struct {
	// Watch is Core without a timeout, for watches. All other clients bound each request.
	Core           corev1.CoreV1Interface
	Coordination   coordinationv1.CoordinationV1Interface
	Authentication authenticationv1.AuthenticationV1Interface
	Authorization  authorizationv1.AuthorizationV1Interface
	Node           nodev1.NodeV1Interface
	Watch          corev1.CoreV1Interface
	// Server is the API server's address, for messages.
	Server string
}

// Connect reads a kubeconfig file and makes the clients. It sends nothing, so the server may be away. It fails if the
// file, or a certificate that the file names, cannot be read.
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
	if clients.Authentication, err = authenticationv1.NewForConfig(bounded); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if clients.Authorization, err = authorizationv1.NewForConfig(bounded); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if clients.Node, err = nodev1.NewForConfig(bounded); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if clients.Watch, err = corev1.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return clients, nil
}
