// Package pleg is the pod lifecycle event generator (pkg/kubelet/pleg): it sends what changed in the runtime, and keeps
// what each pod looks like.
//
// It lists all pods each second and compares. Where the runtime streams container events, those come sooner, and the
// list is made rarely; when the stream ends, it lists each second again until there is another one.
//
// Neither a list nor an event has all that a pod's worker must know. The generator notices changes; the worker asks for
// the pod's status when it gets to the pod. A change that a status shows already, as most changes by the kubelet
// itself, costs no question.
package pleg
