// Package follow keeps a store equal to what an API server has of one kind of objects: list, watch from there, resume after
// a disconnect, list again when the server has forgotten where the watch was. The work is done by client-go's reflector,
// the one that kubelets use; this package gives it a typed store, bounds its lists, and tells of a server that cannot be
// asked, once.
package follow
