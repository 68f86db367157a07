// Package docs holds the documents of the repository to the tree: the files and directories that they name are there.
package docs
