// Package imagemanager is the image manager (pkg/kubelet/images). It pulls the images of containers with back-off, and
// removes unused images.
package imagemanager
