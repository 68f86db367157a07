// Command bench measures criadapter beside its peers, in one run on one machine:
//
//   - raw ordinary: the Docker API and the CNI plugins called by hand, in the plain way,
//   - raw best: the same calls in the quickest way; no CRI server can be quicker,
//   - criadapter-oci: criadapter with pods that have no sandbox container, on an engine of its own like criadapter's,
//   - containerd: the containerd of criadapter's engine, with its CRI plugin, on a root and socket of its own,
//   - cri-dockerd: built from its module (package peers), on an engine of its own, which has the program and settings
//     of criadapter's engine. On one engine, criadapter and cri-dockerd would list each other's pods.
//
// All run in the test rig, with the same OCI runtime, overlay file system, CNI plugins, sandbox image and container
// image. Usage:
//
//	go run ./test/bench [-quick] [-json file] [-parts list]
//
// The parts:
//
//   - inprocess: lists in process,
//   - lives: every call of a pod's life,
//   - exec: ExecSync beside the engine calls that it is made of,
//   - logs: CPU time and speed of container logs,
//   - kubelet: pods from a directory and restarts of dead containers, through the kubelet core,
//   - many: pods brought up by many workers, then lists, statuses, stats, CPU time, memory and engine calls with up to
//     60 pods,
//   - memory: the memory of all processes of a node,
//   - rest: CPU time of 100 pods that only run.
//
// Two suites of other projects run only if -parts names them. They run on criadapter, containerd and cri-dockerd, and
// their results have a file of their own, suites.json. bench fails if something fails on criadapter:
//
//   - stress: the CRI workers of containerd-stress, which make and remove pods,
//   - critest: critest -benchmark, which times calls one by one.
//
// One more part runs only if -parts names it, because it takes an hour:
//
//   - scale: 1,000 sessions, 200 pods at once, 2,000 images, and 10,000 dead containers.
//
// Absolute times drift on a shared machine. So the servers take turns, and a goal is judged by the median of the turns'
// ratios. Each goal prints one line, for comparisons with other versions:
//
//	ratio NAME VALUE goal GOAL
//
// Pure code, such as the cache and the translation, has Go benchmarks in its own package. `make bench` runs them as
// well.
package main
