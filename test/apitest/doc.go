// Package apitest is an API server in memory: pods, config maps, secrets, events, nodes and leases with UIDs, resource
// versions, graceful deletion, preconditions and strategic merge patches as the real one has them. It lists and watches
// with field selectors, forgets old versions, breaks watches off, and fails as a test says. Nothing is defaulted,
// validated or authorised.
//
// A server that listens (Start) is for what watches; Core and Coordination call it in the same goroutine, so that time
// may be simulated.
package apitest
