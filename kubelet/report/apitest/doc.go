// Package apitest is an API server in memory for tests: pods and events with UIDs, resource versions, graceful deletion,
// preconditions and strategic merge patches, as the real one has them. It admits everything and watches nothing.
package apitest
