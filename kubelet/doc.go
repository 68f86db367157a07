// Package kubelet is the core of a kubelet: it keeps the pods that its sources name running on any CRI runtime. It is
// minimal in size, not in truth: what it does, it does as the kubelet does. Read it in the order of a pod's way.
//
// # A pod's way
//
// A file appears in the manifest folder (or a URL answers, or an API server sends). config.Folder notices, lets it
// settle, and has package manifest read it: strict decoding, a UID that is a hash of content and place, defaults,
// validation that names each field. config.Mux compares the source's pods with what it told before and sends the
// difference: ADD, UPDATE, REMOVE, DELETE, RECONCILE. It also writes the accepted pods to a checkpoint, from which the
// next start restores them before any source has spoken.
//
// The sync loop (syncloop.go) is one select over everything that can ask for work:
//
//	config updates    a pod is to be, to change or to end
//	PLEG events       the runtime's picture of a pod changed
//	probe results     a container is to be restarted, or became ready
//	changed objects   a config map or secret: volumes are to be refreshed
//	the sync ticker   pods whose time has come: a back-off ends, a retry, a minute has passed
//	housekeeping      running pods that nobody wants; leftovers
//
// It does nothing itself: it wakes the pod's worker. While the runtime is not ready the loop rests, 100 milliseconds
// doubling to 5 seconds, and all pods stay as they are.
//
// podworkers.Workers has a goroutine per pod, so that a pod that hangs holds up no other. The worker waits until the pod's
// name is free, then calls Sync again and again; when the pod is to end it calls Terminate until no container is left, then
// Terminated, and never goes back. The latest wish wins, and a wish to end cancels a running sync. The three steps are in
// steps.go:
//
//   - Sync takes the pod's status from package pleg's cache (what the runtime shows), makes the API status of it with
//     status.Generate and publishes that, makes cgroups and volumes, and hands over to container.Actor.
//   - container.ComputeActions decides, purely, from the pod, the runtime's picture and the probes' results: which
//     sandbox, what to kill, what to start. The actor does it: package images pulls, package podspec writes the
//     configurations, CRI creates and starts, hooks run. What has to wait (crash or pull back-off) tells until when.
//   - Terminate kills: preStop hook, SIGTERM, the grace period, SIGKILL; sidecars last. Terminated unmounts and forgets.
//
// What the actor does the runtime shows: package pleg lists all pods each second, or takes the runtime's own events where
// it streams them, refreshes the cache and sends an event; the loop wakes the worker; the worker syncs; ComputeActions
// finds nothing more to do. The same circle restarts a container that died. Whatever is missed is found by the next list,
// whatever failed is tried again: no step relies on an earlier one having been seen.
//
// Package prober has a goroutine per probe of each running container. container.Collector, container.Rotator and
// images.Collector (housekeeping.go) keep the disk free.
//
// # In a cluster
//
// With a kubeconfig the same loop serves a cluster; what is more is in apiserver.go, and none of it holds up a pod:
//
//	config.API         tells the pods that the scheduler bound to this node, once package node has registered it
//	package admission  refuses what the node cannot take: the pod is shown as failed, and never gets a worker
//	package objects    has the config maps and secrets that pods name, package services the variables, package token tokens
//	package report     sends each status that the store has, and has the server forget a deleted pod that has ended
//	package mirror     shows static pods there
//	package server     answers kubectl logs, exec, attach and port-forward over TLS, by way of the API server
//
// A server that is away changes nothing here: pods run on, restarts and probes go on, and the last word on each pod is
// sent when it is back. After a restart without it the checkpoint has its pods, too.
//
// # What survives
//
// A restart of this process, of the runtime's or of both restarts no container: everything that must be remembered is in
// the runtime (labels and annotations of containers, see package model), in the manifests, or in the checkpoint. In
// memory alone are back-offs, probe results and events.
//
// # Concurrency
//
// Everything of one pod happens in its worker's goroutine; the parts that several pods share say in their documentation
// that they are safe for concurrent use. Every goroutine ends with Run's context, and Run waits for them.
package kubelet
