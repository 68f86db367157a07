// Package apitest is an API server in memory. It has UIDs, resource versions, graceful deletion, preconditions and
// strategic merge patches like a real one. It lists and watches with field selectors. A test can make it forget old
// versions, end watches, and fail. It sets no defaults, validates nothing and authorises every request.
//
// Start makes a server that listens, which watches need. Core and Coordination call the server in the same goroutine,
// so that tests can run in fake time.
package apitest
