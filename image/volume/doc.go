// Package volume makes the files of images mountable on engines that have no image mounts. On other engines it adds two
// guarantees to their image mounts. The create of a container fails if the mounted part of an image does not exist. A
// container can mount one image at several places, which Docker 28 refuses.
//
// An image's files are extracted once, below a directory of criadapter:
//
//	<root>/<hex of the image's id>/fs    the files, which are never written to
//	<root>/.making-*                     files that are being extracted
//	<root>/.removing-*                   files that are being removed
//
// A directory gets its name when it is complete and on the disk. After a crash, Open removes the directories of the
// last two kinds. The store does not record the users of a directory: the engine's list of containers has their mounts.
// A directory that no container has mounted is removed after Options.Keep.
package volume
