// Package reflector keeps a store equal to what an API server has of one kind of objects, as the informers of
// client-go that the kubelet uses: list, watch from there, resume after a disconnect, list again when the server has
// forgotten where the watch was. The work is client-go's Reflector (tools/cache); this package gives it a typed store
// and the kubelet's back-off, bounds its lists, and reports a server that cannot be asked, once. The shared informers
// above it would add a second copy of each object, an index and a resync, which nobody here reads.
package reflector
