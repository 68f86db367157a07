// Package docs holds the documents of the repository to the tree: the files and directories that they name are there,
// and so are the commands, flags, targets and sockets. Each block of commands says by which suite it is run, see
// package fence.
package docs
