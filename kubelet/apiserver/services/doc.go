// Package services makes the environment variables that name the services of a pod's namespace, such as
// REDIS_SERVICE_HOST. It corresponds to the kubelet's service lister with pkg/kubelet/envvars. Programs in a cluster
// find the API server by KUBERNETES_SERVICE_HOST and _PORT.
package services
