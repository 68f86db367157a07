package server

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/logs"
	"github.com/criadapter/criadapter/kubelet/model"
)

// logBuffer is how much of a log is gathered before it is sent, in bytes; a follower gets what there is.
const logBuffer = 32 << 10

// logQuery is v1.PodLogOptions as the API server passes it on.
type logQuery struct {
	follow, previous, timestamps bool
	stream                       string
	tail, limit                  *int64
	since                        time.Time
}

// containerLogs answers with the log of a container.
func (s *API) containerLogs(w http.ResponseWriter, r *http.Request) {
	asked, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		fail(w, err)
		return
	}
	opts, err := s.log(r, asked)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	sent, sink := false, http.NewResponseController(w)
	out := bufio.NewWriterSize(writer(func(p []byte) (int, error) { sent = true; return w.Write(p) }), logBuffer)
	if asked.stream != v1.LogStreamStderr {
		opts.Stdout = out
	}
	if asked.stream != v1.LogStreamStdout {
		opts.Stderr = out
	}
	opts.Idle = func() error {
		sent = true
		if err := out.Flush(); err != nil {
			return err
		}
		return sink.Flush()
	}
	err = errors.Join(logs.Read(r.Context(), opts), out.Flush())
	switch {
	case err == nil:
	case !sent && errors.Is(err, fs.ErrNotExist):
		fail(w, notFound("container %q in pod %q has no log (any more)", r.PathValue("container"), r.PathValue("pod")))
	case !sent:
		fail(w, err)
	default:
		logrus.WithError(err).WithField("path", opts.Path).Debug("A log was not sent to its end")
		panic(http.ErrAbortHandler) // or the client would take it for the end
	}
}

// writer is a function that writes.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// log says what is to be read for a request.
func (s *API) log(r *http.Request, asked logQuery) (logs.Options, error) {
	pod, err := s.pod(r)
	if err != nil {
		return logs.Options{}, err
	}
	name := r.PathValue("container")
	if spec, _ := model.FindContainer(&pod.Spec, name); spec == nil {
		return logs.Options{}, notFound("container %q not found in pod %q", name, pod.Name)
	}
	id, err := attempt(pod, name, asked.previous)
	if err != nil {
		return logs.Options{}, err
	}
	seen, err := s.runtime.PodStatus(r.Context(), pod.UID)
	if err != nil {
		return logs.Options{}, err
	}
	container := seen.ContainerByID(model.RuntimeID(id))
	if container == nil || container.LogPath == "" {
		return logs.Options{}, badRequest("unable to retrieve container logs for %s: the runtime does not have it any more", id)
	}
	opts := logs.Options{Path: container.LogPath, Tail: -1, Limit: -1, Since: asked.since, Timestamps: asked.timestamps}
	if asked.tail != nil {
		opts.Tail = *asked.tail
	}
	if asked.limit != nil {
		opts.Limit = *asked.limit
	}
	if asked.follow {
		opts.More = s.stillRuns(pod, name, id)
	}
	return opts, nil
}

// stillRuns says whether that attempt of a container may write more.
func (s *API) stillRuns(pod *v1.Pod, name, id string) func(context.Context) bool {
	uid := pod.UID
	return func(context.Context) bool {
		for _, pod := range s.Pods() {
			if pod.UID == uid {
				status := model.FindStatus(pod, name)
				return status != nil && status.ContainerID == id && status.State.Running != nil
			}
		}
		return false
	}
}

// attempt is the id of the attempt whose log is meant, with the kubelet's words when there is none.
func attempt(pod *v1.Pod, name string, previous bool) (string, error) {
	status := model.FindStatus(pod, name)
	if status == nil {
		return "", badRequest("container %q in pod %q is not available", name, pod.Name)
	}
	last := ""
	if ended := status.LastTerminationState.Terminated; ended != nil {
		last = ended.ContainerID
	}
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

// parseLogQuery reads and judges the options.
func parseLogQuery(query url.Values, now time.Time) (asked logQuery, err error) {
	for name, field := range map[string]*bool{"follow": &asked.follow, "previous": &asked.previous, "timestamps": &asked.timestamps} {
		if *field, err = boolean(query, name); err != nil {
			return asked, err
		}
	}
	if asked.tail, err = integer(query, "tailLines", 0); err != nil {
		return asked, err
	}
	if asked.limit, err = integer(query, "limitBytes", 1); err != nil {
		return asked, err
	}
	seconds, err := integer(query, "sinceSeconds", 1)
	if err != nil {
		return asked, err
	}
	if seconds != nil {
		asked.since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if seconds != nil {
			return asked, unprocessable("sinceTime: at most one of `sinceTime` or `sinceSeconds` may be specified")
		}
		if asked.since, err = time.Parse(time.RFC3339, text); err != nil {
			return asked, badRequest("sinceTime: %q is no time as 2006-01-02T15:04:05Z", text)
		}
	}
	switch asked.stream = query.Get("stream"); asked.stream {
	case "":
		asked.stream = v1.LogStreamAll
	case v1.LogStreamAll:
	case v1.LogStreamStdout, v1.LogStreamStderr:
		if asked.tail != nil {
			return asked, unprocessable("tailLines: cannot be set together with stream %s", asked.stream)
		}
	default:
		return asked, unprocessable("stream: %q is none of All, Stdout and Stderr", asked.stream)
	}
	return asked, nil
}
