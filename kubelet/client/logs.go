package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// LogOptions say what of a container's log is read, and where it goes.
type LogOptions struct {
	// Container is empty for the pod's default one.
	Container string
	// Previous means the attempt before the current one.
	Previous bool
	// Follow goes on until the attempt ends.
	Follow bool
	// Tail is how many lines at the end are read; negative for all.
	Tail int
	// Since leaves out what is older than that; zero for nothing.
	Since time.Time
	// Timestamps writes the time before each line.
	Timestamps bool
	// Stdout and Stderr take the streams.
	Stdout, Stderr io.Writer
}

const (
	// logPoll is how often a log is looked at for more, statusPoll how often the kubelet is asked whether more may come.
	logPoll    = 100 * time.Millisecond
	statusPoll = time.Second
)

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
		fmt.Fprintf(opts.Stderr, "Logs of container %s; there are: %s\n", name, joined(others))
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
	log := logReader{path: path, opts: opts}
	if opts.Follow && !opts.Previous {
		log.more = c.stillRuns(pod, name, attempt)
	}
	err = log.run(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("container %s of pod %s has no log (any more) at %s: %w", name, pod.Name, path, errdefs.ErrNotFound)
	}
	return err
}

func joined(names []string) string {
	var text bytes.Buffer
	for i, name := range names {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(name)
	}
	return text.String()
}

// logAttempt is the attempt whose log is asked for.
func logAttempt(pod *v1.Pod, name string, previous bool) (uint32, error) {
	status := containerStatus(pod, name)
	switch current := uint32(status.RestartCount); {
	case previous && current == 0:
		return 0, fmt.Errorf("container %s of pod %s was not restarted: it has no previous log: %w", name, pod.Name, errdefs.ErrNotFound)
	case previous:
		return current - 1, nil
	case status.ContainerID == "" && status.LastTerminationState.Terminated == nil:
		reason := "it is not known why"
		if status.State.Waiting != nil {
			reason = status.State.Waiting.Reason
			if status.State.Waiting.Message != "" {
				reason += ": " + status.State.Waiting.Message
			}
		}
		return 0, fmt.Errorf("container %s of pod %s is waiting to start (%s): %w", name, pod.Name, reason, errdefs.ErrFailedPrecondition)
	default:
		return current, nil
	}
}

// stillRuns asks the kubelet whether the attempt may write more. A kubelet that is away does not end anything.
func (c *Client) stillRuns(pod *v1.Pod, name string, attempt uint32) func(context.Context) bool {
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

// logReader reads one log file, and the ones that follow it when it is rotated.
type logReader struct {
	path string
	opts LogOptions
	// more says whether the log may still grow; nil means that it is read to its end only.
	more func(context.Context) bool

	file    *os.File
	lines   *bufio.Reader
	started [2]bool // by stream: a line was begun and not ended
}

func (l *logReader) run(ctx context.Context) error {
	if err := l.open(); err != nil {
		return err
	}
	defer func() { _ = l.file.Close() }() // it was only read
	if l.opts.Tail >= 0 {
		start, err := tailStart(l.file, l.opts.Tail)
		if err != nil {
			return err
		}
		if _, err := l.file.Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
	asked := time.Now()
	last := l.more == nil
	for {
		if err := l.drain(); err != nil {
			return err
		}
		rotated, err := l.follow()
		if err != nil || last && !rotated {
			return err
		}
		if rotated {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPoll):
		}
		if time.Since(asked) >= statusPoll {
			asked = time.Now()
			last = !l.more(ctx) // what was written before the end is read once more
		}
	}
}

func (l *logReader) open() error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	l.file, l.lines = file, bufio.NewReader(file)
	return nil
}

// follow opens the file anew when another one is at the path. The old one is read to its end first, but for a line that
// was never finished.
func (l *logReader) follow() (rotated bool, err error) {
	there, err := os.Stat(l.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // between two files, or gone for good
		}
		return false, err
	}
	open, err := l.file.Stat()
	if err != nil || os.SameFile(there, open) {
		return false, err
	}
	if err := l.drain(); err != nil {
		return false, err
	}
	old := l.file
	if err := l.open(); err != nil {
		return false, err
	}
	return true, old.Close()
}

// drain writes all whole lines that are there.
func (l *logReader) drain() error {
	for {
		line, err := l.lines.ReadBytes('\n')
		if err == io.EOF {
			// The end of the line is not written yet: it is read again next time.
			if _, err := l.file.Seek(-int64(len(line)), io.SeekCurrent); err != nil {
				return err
			}
			l.lines.Reset(l.file)
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.write(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

// write writes one line to its stream.
func (l *logReader) write(raw []byte) error {
	line, err := parseLogLine(raw)
	if err != nil {
		_, err := fmt.Fprintf(l.opts.Stderr, "kubelet-core: %v\n", err)
		return err
	}
	if line.at.Before(l.opts.Since) {
		return nil
	}
	out, stream := l.opts.Stdout, 0
	if line.stderr {
		out, stream = l.opts.Stderr, 1
	}
	text := line.text
	if l.opts.Timestamps && !l.started[stream] {
		text = append([]byte(line.at.Format(time.RFC3339Nano)+" "), text...)
	}
	l.started[stream] = line.partial
	if !line.partial {
		text = append(text[:len(text):len(text)], '\n')
	}
	_, err = out.Write(text)
	return err
}

// tailBlock is how much is read at once from the end of a log, in bytes.
const tailBlock = 64 << 10

// tailStart is where the last lines of the file begin.
func tailStart(file *os.File, lines int) (int64, error) {
	info, err := file.Stat()
	if err != nil || lines == 0 {
		return info.Size(), err
	}
	block := make([]byte, tailBlock)
	for end := info.Size(); end > 0; {
		start := max(0, end-tailBlock)
		part := block[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			// The newline at the very end belongs to the last line.
			if part[i] != '\n' || start+int64(i) == info.Size()-1 {
				continue
			}
			if lines--; lines == 0 {
				return start + int64(i) + 1, nil
			}
		}
		end = start
	}
	return 0, nil
}
