// Package devicemanager gives the devices of device plugins to containers. The plugins' API is
// k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
//
// A plugin registers a resource, such as example.com/card, at the socket kubelet.sock of the plugins' directory. Then
// it lists its devices on a socket of its own. The node reports them, so that pods with a limit of the resource are
// admitted. When a container is created, it gets devices that no other container has, and keeps them over its restarts
// and the kubelet's.
package devicemanager
