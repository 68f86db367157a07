// Package docs compares the documents with the tree. The files and directories that they name exist, and so do the
// commands, flags, targets and sockets. Each block of commands names the suite that runs it, see package fence.
package docs
