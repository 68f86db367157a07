// Package image is criadapter's image service: pull, list, status, removal and
// filesystem usage of the engine's images in the terms of CRI, and the
// sandbox image that every pod starts from.
//
// An image has one id, the engine's own, used unchanged as Image.id,
// PullImageResponse.image_ref and Container.image_id: the config's digest with
// Docker's own image store, the manifest's digest with the containerd store.
// The kubelet looks pulled images up by it, and takes an image whose ids differ
// for one that was preloaded.
package image
