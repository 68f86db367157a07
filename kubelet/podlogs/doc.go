// Package podlogs reads the log of one attempt of a container, for the kubelet's API and for the commands of
// kubelet-core; its counterpart is pkg/kubelet/kuberuntime/logs. It reads the file at the path that the runtime named,
// in the CRI's format or in Docker's JSON lines, to its end or, for those who follow, on through rotations until no
// more can come.
//
// It is our own because the reader of k8s.io/cri-client/pkg/logs, the kubelet's, does not handle rotation, as it says
// itself: a follower of a file that is emptied in place, as criadapter's log mode "symlink" does, or of a link that
// gets another target never shows another line. It also asks the runtime whether the container runs, whose socket the
// commands do not open; puts a timestamp into the middle of a long line when the other stream wrote meanwhile; and a
// missing file is no fs.ErrNotExist.
package podlogs
