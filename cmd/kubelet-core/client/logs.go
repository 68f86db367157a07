package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podlogs"
)

// LogOptions say which part of a container's log to read, and where to write it.
type LogOptions struct {
	// Container is the container's name. Empty means the pod's default container.
	Container string
	// Previous means the attempt before the current one.
	Previous bool
	// Follow reads on until the attempt ends.
	Follow bool
	// Tail is the number of lines to read from the end. A negative number means all.
	Tail int
	// Since leaves out older lines. Zero leaves out none.
	Since time.Time
	// Timestamps writes the time before each line.
	Timestamps bool
	// Stdout and Stderr get the streams.
	Stdout, Stderr io.Writer
}

// Logs writes the log of a container. It ends without error when ctx ends.
func (c *Client) Logs(ctx context.Context, ref Ref, opts LogOptions) error {
	pod, err := c.Find(ctx, ref)
	if err != nil {
		return err
	}
	name, others, err := Container(pod, opts.Container)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		fmt.Fprintf(opts.Stderr, "Defaulted container %q out of: %s\n", name, strings.Join(others, ", "))
	}
	config, err := c.Config(ctx)
	if err != nil {
		return err
	}
	attempt, err := logAttempt(pod, name, opts.Previous)
	if err != nil {
		return err
	}
	path := filepath.Join(model.PodLogDirectory(config.PodLogsDir, pod), model.ContainerLogPath(name, attempt))
	read := podlogs.Options{
		Path: path, Tail: int64(opts.Tail), Since: opts.Since, Timestamps: opts.Timestamps, Limit: -1,
		Stdout: opts.Stdout, Stderr: opts.Stderr,
		Malformed: func(malformed error) error {
			_, err := fmt.Fprintf(opts.Stderr, "kubelet-core: %v\n", malformed)
			return err
		},
	}
	if opts.Follow && !opts.Previous {
		read.Running = c.running(pod, name, attempt)
	}
	err = podlogs.Read(ctx, read)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("container %s of pod %s has no log (any more) at %s: %w", name, pod.Name, path,
			errdefs.ErrNotFound)
	}
	return err
}

// logAttempt returns the attempt whose log is requested.
func logAttempt(pod *v1.Pod, name string, previous bool) (uint32, error) {
	status := containerStatus(pod, name)
	switch current := uint32(status.RestartCount); {
	case previous && current == 0:
		return 0, fmt.Errorf("container %s of pod %s was not restarted: it has no previous log: %w", name, pod.Name,
			errdefs.ErrNotFound)
	case previous:
		return current - 1, nil
	case status.ContainerID == "" && status.LastTerminationState.Terminated == nil:
		reason := "unknown reason"
		if status.State.Waiting != nil {
			reason = status.State.Waiting.Reason
			if status.State.Waiting.Message != "" {
				reason += ": " + status.State.Waiting.Message
			}
		}
		return 0, fmt.Errorf("container %s of pod %s is waiting to start (%s): %w", name, pod.Name, reason,
			errdefs.ErrFailedPrecondition)
	default:
		return current, nil
	}
}

// running returns a function that says whether the attempt may write more. If the kubelet does not respond, the answer
// is yes.
func (c *Client) running(pod *v1.Pod, name string, attempt uint32) func(context.Context) bool {
	uid := pod.UID
	return func(ctx context.Context) bool {
		pods, err := c.Pods(ctx)
		if err != nil {
			return true
		}
		for i := range pods {
			if pods[i].UID == uid {
				status := containerStatus(&pods[i], name)
				return uint32(status.RestartCount) == attempt && status.State.Running != nil
			}
		}
		return false
	}
}
