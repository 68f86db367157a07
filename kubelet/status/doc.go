// Package status says of a pod what the API says: phase, conditions, the state of each container. Generate is pure; Store
// keeps the last word on every pod and tells who asked of changes.
package status
