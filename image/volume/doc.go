// Package volume makes the files of images mountable on engines that have no image mounts. On other engines it adds
// what their mounts lack. The create of a container fails if its part of an image does not exist. One image can be at
// several places of a container, which Docker 28 refuses.
//
// An image's files are extracted once, below a directory of our own:
//
//	<root>/<hex of the image's id>/fs    the files, which are never written to
//	<root>/.making-*                     files that are being extracted
//	<root>/.removing-*                   files that are being removed
//
// A directory gets its name when it is complete and on the disk. So a crash leaves a directory of the last two kinds,
// which Open removes. The store does not record who uses a directory: the engine's list of containers has their mounts.
// A directory that no container has mounted is removed after a while.
package volume
