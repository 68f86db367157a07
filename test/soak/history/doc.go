// Package history compares the pod statuses of an API server with the containers of an engine. Two observers feed the
// package: one reads the engine's events and lists (Engine), the other watches the API server (API). Neither asks the
// CRI server, which is between the API server and the engine.
//
// Now compares the present state. Callers repeat Now, because on a node something is always changing. Whole compares
// the whole histories by these rules:
//
//   - Each container that was started is reported to the API server. A missing report is excused if the pod was
//     deleted, or if a later attempt of the same container was reported. The deletion or the later start must follow
//     within reportLag, or a fault must lie between.
//   - Each reported container existed on the engine, and its attempt is the restart count.
//   - Each reported end has the engine's exit code. No ended container is still reported as running. A missing report
//     is excused if the container ended after its pod's deletion, or within reportLag or around a fault before it.
//   - The kubelet finds each container until the pod is deleted or evicted.
//   - Restart counts never go down, no end is taken back, and no container is started twice.
//   - A container with a known exit code ends with it, and a Job ends once. A deletion, an eviction or a fault excuses
//     another exit code. It also excuses a second run of the Job, up to reportLag after the end of the first.
package history
