// Package image is criadapter's image service. It pulls, lists, inspects and removes the engine's images and measures
// their disk usage, in CRI's terms. It also provides the sandbox image of every pod.
//
// An image has one id, the engine's own: the config's digest with Docker's own image store, the manifest's digest with
// the containerd store. It is unchanged in Image.id, PullImageResponse.image_ref and Container.image_id. The kubelet
// looks up pulled images by it. It would treat an image with different ids as preloaded.
package image
