// Package volume makes the file systems of images mountable on engines that cannot mount them by themselves, and for what
// those that can do not offer: a part of an image with an error at the create when it does not exist, and one image at
// several places of a container, which Docker 28 refuses.
//
// An image's files are extracted once, below a directory of our own:
//
//	<root>/<hex of the image's id>/fs    the files; nobody writes to them
//	<root>/.making-*                     files that are being extracted
//	<root>/.removing-*                   files that are being removed
//
// A directory gets its name when it is complete and on the disk, so a crash leaves one of the last two, which Open removes.
// Who uses a directory is nowhere written down: the engine's list of containers tells what each has mounted. A directory that no
// container has mounted is removed after a while.
package volume
