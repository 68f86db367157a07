// Package kubelet is a kubelet's core: it keeps the pods that its sources name running on any CRI runtime.
package kubelet
