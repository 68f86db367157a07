// Command bench measures criadapter beside its peers, in one run on one machine:
//
//   - raw ordinary: the Docker API and the CNI plugins called by hand, as one would at first,
//   - raw best: the same with everything that makes it quicker; this is the floor that a CRI server stands on,
//   - criadapter-oci: criadapter with pods that have no sandbox container, on an engine of its own like criadapter's,
//   - containerd: the engine's, with its CRI plugin, on a root and socket of its own,
//   - cri-dockerd: built from its module (package peers), on an engine of its own of the same program and settings as
//     criadapter's, because both name their pods alike and would list each other's.
//
// All run in the test rig, with the same OCI runtime, overlay file system, CNI plugins, sandbox image and container
// image. Usage:
//
//	go run ./test/bench [-quick] [-json file] [-parts list]
//
// The parts: lists in process (inprocess); every call of a pod's life (lives); ExecSync over the engine calls that it
// is made of (exec); CPU time and speed of container logs (logs); pods from a directory and restarts of dead containers
// through the kubelet core (kubelet); pods brought up by many workers, lists, statuses, figures, CPU time and memory
// with up to 60 pods, and the engine calls behind them (many); the memory of all
// processes of a node (memory).
//
// Absolute times drift on a shared machine, so the servers take turns and a goal is judged by the median of the ratios
// of the turns. Each goal prints one line, which benchmarks of other versions can be compared with:
//
//	ratio NAME VALUE goal GOAL
//
// What is pure (the cache, the translation) has Go benchmarks in its own package, which `make bench` runs as well.
package main
