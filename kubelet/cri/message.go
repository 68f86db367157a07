package cri

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podlogs"
)

const (
	// maxMessage bounds a termination message in bytes. maxLogBytes and maxLogLines bound a message from the log. They
	// are the kubelet's limits.
	maxMessage  = 4096
	maxLogBytes = 2048
	maxLogLines = 80
)

// terminationMessage is the content of the container's termination message file. With the policy FallbackToLogsOnError,
// a failed container without such a message has the end of its log instead.
func terminationMessage(ctx context.Context, s *runtimeapi.ContainerStatus) string {
	if path := s.GetAnnotations()[model.AnnotationTerminationMessagePath]; path != "" {
		for _, mount := range s.GetMounts() {
			if mount.GetContainerPath() != path {
				continue
			}
			if message := tail(mount.GetHostPath(), maxMessage); message != "" {
				return message
			}
		}
	}
	policy := s.GetAnnotations()[model.AnnotationTerminationMessagePolicy]
	if policy != "FallbackToLogsOnError" || s.GetExitCode() == 0 || s.GetLogPath() == "" {
		return ""
	}
	return logEnd(ctx, s.GetLogPath())
}

// tail reads at most limit bytes from the end of a regular file. Errors count as no content. A pod may have put a pipe
// there, so opening must not block.
func tail(path string, limit int64) string {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	buffer := make([]byte, min(limit, info.Size()))
	n, _ := file.ReadAt(buffer, max(0, info.Size()-limit)) // after an error, the bytes read so far count
	return string(buffer[:n])
}

// logEnd returns the end of a container's log, with both streams. It ignores read errors.
func logEnd(ctx context.Context, path string) string {
	var end lastBytes
	_ = podlogs.Read(ctx, podlogs.Options{Path: path, Tail: maxLogLines, Limit: -1, Stdout: &end, Stderr: &end})
	return string(end)
}

// lastBytes keeps the last maxLogBytes written to it.
type lastBytes []byte

func (l *lastBytes) Write(p []byte) (int, error) {
	*l = append(*l, p...)
	if more := len(*l) - maxLogBytes; more > 0 {
		*l = append((*l)[:0], (*l)[more:]...)
	}
	return len(p), nil
}
