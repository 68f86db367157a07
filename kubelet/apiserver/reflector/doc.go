// Package reflector keeps a store equal to the API server's objects of one kind, like the client-go informers of the
// kubelet. It lists, and watches from the list's resource version. It resumes the watch after a disconnect, and lists
// again if the server no longer has the resource version. client-go's Reflector (tools/cache) does this work. This
// package adds a typed store and the kubelet's back-off, bounds the lists, and reports once why a server cannot be
// asked. Shared informers would add a second copy of each object, an index and a resync, which the kubelet core does
// not need.
package reflector
