// Package stats reads what containers and pods use: CPU, memory, swap, pressure, processes, network and disk. It
// answers the stats and metrics RPCs of CRI.
//
// # Where the stats come from
//
// From the kernel's files alone; the engine is never asked. A container's cgroup is found once, in /proc/PID/cgroup,
// and remembered until the container has another process or is gone. The path is cut behind the element that holds the
// container's id, because an init in the container may have moved itself further down (systemd makes init.scope). Both
// cgroup versions are read, also mixed (pressure is known to version 2 alone), with either driver's names. The reading
// is our own because github.com/containerd/cgroups reads every file of a cgroup, for ten times the time
// (docs/decisions/0005-own-cgroup-reading.md).
//
// The stats of a pod are those of its cgroup parent where the client gave it one of its own, which then includes the
// sandbox and whatever else was put there; else the sums over the sandbox and its containers. Network stats are those
// of the pod's network namespace, seen through the sandbox process. A pod on the node's network has none: they would be
// the node's.
//
// What a container has written to its own layer takes long to count. It is counted in the background, when somebody
// asks and the last count is old, and the stats carry the time of the count. The first answer has none. Metrics have no
// times, because Prometheus drops what is older than five minutes. Only overlays have a directory to count
// (docs/metrics.md).
//
// # CPU per second
//
// Cumulative counts are read at the moment of the answer. Nano cores are the growth since our last sample of the
// container, if that is between half a second and a minute ago; since the one before, if the last is more recent than
// that, as when two clients ask in turn; and since its start, if the container is younger than a minute. Only where
// none of these is there, after a start of the server or a long silence, a call takes two samples a tenth of a second
// apart, once for all its containers. A change of load thus shows in the next call.
//
// # What is not there
//
// Containers and pods come and go while they are read. One whose cgroup is gone is left out of lists; a stat that the
// kernel does not have (no swap accounting, no pressure) is left out of its entry, and so is all of a running container
// or pod that was asked for by id and whose cgroup cannot be read. What is unknown is never 0, and a sum with an
// unknown part is unknown. Only what does not run is known to use nothing. No call fails for it.
package stats
