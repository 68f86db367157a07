// Package imagemanager is the image manager (pkg/kubelet/images): when to pull the images of containers, when to wait
// before trying again, and which unused ones to remove.
package imagemanager
