// Package artifact pulls and keeps OCI artifacts: registry content that is not an image, such as a model or a chart. A
// pod mounts an artifact as an image volume (KEP-4639). Each layer is one file there. Its name is the layer's
// annotation org.opencontainers.image.title, or the digest as sha256-….
//
// An engine with the containerd image store pulls, lists and removes artifacts by itself. Other engines refuse them, so
// Engine keeps them in a Store beside the engine's images:
//
//	<root>/<hex of the id>/manifest.json   the manifest; its digest is the artifact's id
//	<root>/<hex of the id>/names.json      the tags and the names by digest
//	<root>/<hex of the id>/blobs/<hex>     the layers
//	<root>/.making-*, .removing-*          remains of a crash, which Open removes
//
// A directory gets its name when it is complete and on the disk. Blobs never change, so that volumes may have links to
// them.
package artifact
