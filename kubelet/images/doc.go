// Package images sees to the images of containers: when to pull, and when to wait before trying again.
package images
