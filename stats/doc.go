// Package stats reads the resource usage of containers and pods: CPU, memory, swap, pressure, processes, network and
// disk. It answers the stats and metrics RPCs of CRI.
//
// # Where the stats come from
//
// All stats come from the kernel's files, never from the engine. A container's cgroup is looked up in /proc/PID/cgroup
// once, and kept until the container has another process or is gone. The path is cut after the element with the
// container's id. An init in the container may have moved itself further down (systemd makes init.scope). Both cgroup
// versions are read, also mixed, with either driver's names. Pressure exists in version 2 only. The package has its own
// reader because github.com/containerd/cgroups reads every file of a cgroup and takes ten times as long
// (docs/decisions/0005-own-cgroup-reading.md).
//
// A pod's stats come from its cgroup parent, if the client gave it a cgroup of its own. They include the sandbox and
// all other processes in that cgroup. Otherwise they are the sums over the sandbox and its containers. Network stats
// come from the pod's network namespace through the sandbox process. A pod on the node's network has no network stats.
//
// Counting a container's writable layer takes long. A request starts a count in the background if the last count is
// old, and returns the last count with its time. The first answer has no count. Metrics have no time stamps, because
// Prometheus drops samples older than five minutes. Only overlays have a directory to count (docs/metrics.md).
//
// # CPU per second
//
// Cumulative counts are read during the request. Nano cores are the growth since the collector's last sample of the
// container, if that sample is between half a second and a minute old. If it is newer, as with two clients that ask in
// turn, the sample before it counts. If the container is younger than a minute, its start counts. Soon after the
// server's start, there may be neither such a sample nor a recent start. Then a call takes two samples a tenth of a
// second apart, for all its containers together. So a change of load is visible in the next call.
//
// # Missing stats
//
// Containers and pods come and go while they are read. Lists leave out an entry whose cgroup is gone. An entry leaves
// out a stat that the kernel does not have, such as swap without swap accounting. A running container or pod that was
// requested by id has no usage if its cgroup cannot be read. An unknown value is never 0, and a sum with an unknown
// part is unknown. Containers and pods that do not run use 0. No call fails because of a missing stat.
package stats
