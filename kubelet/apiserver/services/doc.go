// Package services is the kubelet's service lister with pkg/kubelet/envvars: it gives containers the environment
// variables that name the services of their namespace, as REDIS_SERVICE_HOST does: programs in a cluster find the API
// server by KUBERNETES_SERVICE_HOST and _PORT.
package services
