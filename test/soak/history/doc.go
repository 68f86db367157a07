// Package history compares what an API server was told of containers with what an engine says of them. Two observers feed
// it, neither of which asks the CRI server between both: one reads the engine's events and looks (Engine), the other
// watches the API server (API).
//
// Now compares a moment in which nothing is under way. Whole compares all that ever happened, with these rules:
//
//   - Each container that was started is one that the API server was told of. One that was not is excused if its pod was
//     deleted before a kubelet could tell of it, or if a later attempt of the same container was told of; both only
//     within reportLag or around a fault.
//   - Each container that the API server was told of is one that the engine had, and it has the attempt that the restart
//     count says.
//   - Each end that the API server was told of has the engine's exit code, and no container is told as running any more
//     that has ended.
//   - Restart counts never go down, no end is taken back, and no container is started twice.
//   - What ends with a known code does, and Jobs end once, unless a deletion, an eviction or a fault explains it.
//
// What is excused is counted by its reason.
package history
