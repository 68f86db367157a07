// Package pleg is the pod lifecycle event generator (pkg/kubelet/pleg): it sends what changed in the runtime, and keeps
// what each pod looks like.
//
// It lists all pods each second and compares. Where the runtime streams container events, those come sooner, and the
// list is made rarely; when the stream ends, it lists each second again until there is another one. An event of the
// runtime is only taken as a hint of which pod to look at: what it looks like is always asked.
package pleg
