package kubelet

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ClusterOptions say which cluster the node belongs to, and as what. Zero values are the kubelet's defaults.
type ClusterOptions struct {
	// Kubeconfig is the file that says where the API server is and who this node is; empty for no cluster.
	Kubeconfig string
	// Labels and Taints are those that a new node is registered with.
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is how many pods the node takes; zero means 110. Reserved is what is kept from them.
	MaxPods  int
	Reserved v1.ResourceList
	// StatusEvery is how often the node's status is looked at; zero means ten seconds.
	StatusEvery time.Duration
}

// APIOptions say how the kubelet's API is served, see package server.
type APIOptions struct {
	// Address and Port are where it listens; an empty address stands for all, port 0 for no API.
	Address string
	Port    int32
	// CertFile and KeyFile are the serving pair; without them one is made in CertDir, empty for RootDir/pki.
	CertFile, KeyFile, CertDir string
	// ClientCAFile signs those who may use it; it is required.
	ClientCAFile string
	// Users and Groups are who may use it; without any it is everybody whose certificate is signed.
	Users, Groups []string
}

func (o *APIOptions) check() error {
	if o.Port != 0 && o.ClientCAFile == "" {
		return errors.New("the API on a port other than 0 needs a client CA file: everybody could run commands in pods")
	}
	return nil
}
