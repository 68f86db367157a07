package nodeapi

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podlogs"
)

// logBuffer is the size in bytes of the pieces in which a log is sent. A follower gets each new line at once.
const logBuffer = 32 << 10

// logQuery is v1.PodLogOptions as the API server passes it on.
type logQuery struct {
	follow, previous, timestamps bool
	stream                       string
	tail, limit                  *int64
	since                        time.Time
}

// containerLogs answers with a container's log.
func (s *API) containerLogs(w http.ResponseWriter, r *http.Request) {
	query, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		writeError(w, err)
		return
	}
	opts, err := s.logOptions(r, query)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	sent, sink := false, http.NewResponseController(w)
	out := bufio.NewWriterSize(writer(func(p []byte) (int, error) { sent = true; return w.Write(p) }), logBuffer)
	if query.stream != v1.LogStreamStderr {
		opts.Stdout = out
	}
	if query.stream != v1.LogStreamStdout {
		opts.Stderr = out
	}
	opts.Flush = func() error {
		sent = true
		if err := out.Flush(); err != nil {
			return err
		}
		return sink.Flush()
	}
	err = errors.Join(podlogs.Read(r.Context(), opts), out.Flush())
	if err == nil {
		// An API server that passes the log on by WebSocket loses a piece that arrives together with the body's end
		// (messageCopy of apimachinery's wsstream). So the last piece is flushed before the end, as in the kubelet.
		err = sink.Flush()
	}
	switch {
	case err == nil:
	case !sent && errors.Is(err, fs.ErrNotExist):
		writeError(w,
			notFound("container %q in pod %q has no log (any more)", r.PathValue("container"), r.PathValue("pod")))
	case !sent:
		writeError(w, err)
	default:
		log.G(r.Context()).WithError(err).WithField("path", opts.Path).Debug("log was not sent completely")
		panic(http.ErrAbortHandler) // the client must not take a broken log for a complete one
	}
}

// writer makes a function an io.Writer.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// logOptions returns the options of podlogs.Read for a request.
func (s *API) logOptions(r *http.Request, query logQuery) (podlogs.Options, error) {
	pod, err := s.pod(r)
	if err != nil {
		return podlogs.Options{}, err
	}
	name := r.PathValue("container")
	if spec, _ := model.FindContainer(&pod.Spec, name); spec == nil {
		return podlogs.Options{}, notFound("container %q not found in pod %q", name, pod.Name)
	}
	id, err := logContainer(pod, name, query.previous)
	if err != nil {
		return podlogs.Options{}, err
	}
	status, err := s.runtime.PodStatus(r.Context(), pod.UID)
	if err != nil {
		return podlogs.Options{}, err
	}
	container := status.ContainerByID(model.RuntimeID(id))
	if container == nil || container.LogPath == "" {
		return podlogs.Options{}, badRequest(
			"unable to retrieve container logs for %s: the runtime does not have it any more", id)
	}
	opts := podlogs.Options{Path: container.LogPath, Tail: ptr.Deref(query.tail, -1), Limit: ptr.Deref(query.limit, -1),
		Since: query.since, Timestamps: query.timestamps}
	if query.follow {
		opts.Running = s.running(pod, name, id)
	}
	return opts, nil
}

// running returns a function that reports whether an attempt of a container may still write to its log.
func (s *API) running(pod *v1.Pod, name, id string) func(context.Context) bool {
	uid := pod.UID
	return func(context.Context) bool {
		for _, pod := range s.Pods() {
			if pod.UID == uid {
				status := model.FindStatus(&pod.Status, name)
				return status != nil && status.ContainerID == id && status.State.Running != nil
			}
		}
		return false
	}
}

// logContainer returns the id of the container with the requested log. Its errors are the kubelet's.
func logContainer(pod *v1.Pod, name string, previous bool) (string, error) {
	status := model.FindStatus(&pod.Status, name)
	if status == nil {
		return "", badRequest("container %q in pod %q is not available", name, pod.Name)
	}
	last := ptr.Deref(status.LastTerminationState.Terminated, v1.ContainerStateTerminated{}).ContainerID
	state := status.State
	switch {
	case previous && last == "":
		return "", badRequest("previous terminated container %q in pod %q not found", name, pod.Name)
	case previous:
		return last, nil
	case state.Running != nil:
		return status.ContainerID, nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return state.Terminated.ContainerID, nil
	case last != "":
		return last, nil
	case state.Terminated != nil || status.LastTerminationState.Terminated != nil:
		return "", badRequest("container %q in pod %q is terminated", name, pod.Name)
	case state.Waiting == nil:
		return "", badRequest("container %q in pod %q is waiting to start - no logs yet", name, pod.Name)
	}
	reason := state.Waiting.Reason
	switch reason {
	case model.ReasonErrImagePull:
		reason = "image can't be pulled"
	case model.ReasonImagePullBackOff:
		reason = "trying and failing to pull image"
	}
	return "", badRequest("container %q in pod %q is waiting to start: %s", name, pod.Name, reason)
}

// parseLogQuery reads and validates the options.
func parseLogQuery(query url.Values, now time.Time) (parsed logQuery, err error) {
	for name, field := range map[string]*bool{"follow": &parsed.follow, "previous": &parsed.previous,
		"timestamps": &parsed.timestamps} {
		if *field, err = boolean(query, name); err != nil {
			return parsed, err
		}
	}
	if parsed.tail, err = integer(query, "tailLines", 0); err != nil {
		return parsed, err
	}
	if parsed.limit, err = integer(query, "limitBytes", 1); err != nil {
		return parsed, err
	}
	seconds, err := integer(query, "sinceSeconds", 1)
	if err != nil {
		return parsed, err
	}
	if seconds != nil {
		parsed.since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if seconds != nil {
			return parsed, unprocessable("sinceTime: at most one of `sinceTime` or `sinceSeconds` may be specified")
		}
		if parsed.since, err = time.Parse(time.RFC3339, text); err != nil {
			return parsed, badRequest("sinceTime: %q is not a time like 2006-01-02T15:04:05Z", text)
		}
	}
	switch parsed.stream = query.Get("stream"); parsed.stream {
	case "":
		parsed.stream = v1.LogStreamAll
	case v1.LogStreamAll:
	case v1.LogStreamStdout, v1.LogStreamStderr:
		if parsed.tail != nil {
			return parsed, unprocessable("tailLines: cannot be set together with stream %s", parsed.stream)
		}
	default:
		return parsed, unprocessable("stream: %q is not one of All, Stdout and Stderr", parsed.stream)
	}
	return parsed, nil
}
