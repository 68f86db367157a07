// Package stats reads what containers and pods use: CPU, memory, swap,
// pressure, processes, network and disk. It answers the stats and metrics RPCs
// of CRI.
//
// # Where the figures come from
//
// From the kernel's files alone; the engine is never asked. A container's
// cgroup is found once, in /proc/PID/cgroup, and remembered until the container
// has another process or is gone. The path is cut behind the element that
// holds the container's id, because an init in the container may have moved
// itself further down (systemd makes init.scope). Both cgroup versions are read,
// also mixed (pressure is known to version 2 alone), with either driver's names.
//
// The figures of a pod are those of its cgroup parent where the client gave it
// one of its own, which then includes the sandbox and whatever else was put
// there; else the sums over the sandbox and its containers. Network figures are
// those of the pod's network namespace, seen through the sandbox process. A pod
// on the node's network has none: they would be the node's.
//
// What a container has written to its own layer takes long to count. It is
// counted in the background, when somebody asks and the last count is old, and
// the answer carries the time of the count. The first answer has none.
//
// # CPU per second
//
// Cumulative figures are read at the moment of the answer. Nano cores are the
// growth since our last look at the container, if that is between half a second
// and a minute ago; since the one before, if the last is more recent than that,
// as when two clients ask in turn; and since its start, if the container is
// younger than a minute. Only where none of these is there, after a start of
// the server or a long silence, a call takes two looks a tenth of a second
// apart, once for all its containers. A change of load thus shows in the next
// call.
//
// # What is not there
//
// Containers and pods come and go while they are read. One whose cgroup is gone
// is left out of lists; a figure that the kernel does not have (no swap
// accounting, no pressure) is left out of its entry. No call fails for it.
package stats
