// Package podlogs reads the log of one attempt of a container, for the kubelet's API and for the commands of
// kubelet-core (pkg/kubelet/kuberuntime/logs). The log has the CRI's format or Docker's JSON lines. Read reads it to
// its end, or follows it through rotations until the container has ended.
//
// The kubelet's own reader, k8s.io/cri-client/pkg/logs, does not fit:
//
//   - It does not handle rotation. It shows no more lines if the file is truncated, as with criadapter's log mode
//     "symlink", or if a link gets another target.
//   - It asks the runtime whether the container runs. The commands do not connect to the runtime.
//   - It puts a timestamp into the middle of a long line when the other stream wrote meanwhile.
//   - A missing file is not an fs.ErrNotExist.
package podlogs
