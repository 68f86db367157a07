package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/criadapter/criadapter/kubelet/model"
)

// streams are those of a command that a client wants.
type streams struct{ stdin, stdout, stderr, tty bool }

// parseStreams reads the parameters under the kubelet's names or the API server's. A terminal has no stderr of its own.
func parseStreams(query url.Values) (asked streams, err error) {
	for _, flag := range []struct {
		field       *bool
		name, other string
	}{
		{&asked.stdin, "input", "stdin"}, {&asked.stdout, "output", "stdout"}, {&asked.stderr, "error", "stderr"}, {&asked.tty, "tty", "tty"},
	} {
		if *flag.field, err = anyBoolean(query, flag.name, flag.other); err != nil {
			return streams{}, err
		}
	}
	asked.stderr = asked.stderr && !asked.tty
	if !asked.stdin && !asked.stdout && !asked.stderr {
		return streams{}, badRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	return asked, nil
}

// exec runs a command in a container, over SPDY or a WebSocket.
func (s *API) exec(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func() (string, error) {
		query := r.URL.Query()
		asked, err := parseStreams(query)
		if err != nil {
			return "", err
		}
		if len(query["command"]) == 0 {
			return "", badRequest("you must specify at least 1 command for the container")
		}
		_, id, err := s.container(r)
		if err != nil {
			return "", err
		}
		answer, err := s.runtime.Exec(r.Context(), &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: query["command"], Stdin: asked.stdin, Stdout: asked.stdout, Stderr: asked.stderr, Tty: asked.tty,
		})
		return answer.GetUrl(), err
	})
}

// attach joins the process of a container. Whether that has a terminal was decided when it was started.
func (s *API) attach(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func() (string, error) {
		asked, err := parseStreams(r.URL.Query())
		if err != nil {
			return "", err
		}
		pod, id, err := s.container(r)
		if err != nil {
			return "", err
		}
		spec, _ := model.FindContainer(&pod.Spec, r.PathValue("container"))
		answer, err := s.runtime.Attach(r.Context(), &runtimeapi.AttachRequest{
			ContainerId: id, Stdin: asked.stdin, Stdout: asked.stdout, Stderr: asked.stderr && !spec.TTY, Tty: spec.TTY,
		})
		return answer.GetUrl(), err
	})
}

// portForward reaches ports of a pod, over SPDY, SPDY inside of a WebSocket, or the older WebSocket protocol.
func (s *API) portForward(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func() (string, error) {
		ports, err := parsePorts(r)
		if err != nil {
			return "", err
		}
		pod, err := s.pod(r)
		if err != nil {
			return "", err
		}
		id, err := s.sandbox(r.Context(), pod)
		if err != nil {
			return "", err
		}
		answer, err := s.runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: id, Port: ports})
		return answer.GetUrl(), err
	})
}

// parsePorts reads the ports that count for the older WebSocket protocol; SPDY clients name theirs with each connection.
func parsePorts(r *http.Request) ([]int32, error) {
	if !wsstream.IsWebSocketRequest(r) || wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		return nil, nil
	}
	query := r.URL.Query()
	texts := append(query["port"], query["ports"]...)
	if len(texts) == 0 {
		return nil, badRequest("query parameter %q is required", "port")
	}
	var ports []int32
	for _, text := range texts {
		for number := range strings.SplitSeq(text, ",") {
			port, err := strconv.ParseUint(number, 10, 16)
			if err != nil || port == 0 {
				return nil, badRequest("query parameter %q: %q is no port", "port", number)
			}
			ports = append(ports, int32(port))
		}
	}
	return ports, nil
}

// stream asks the runtime for a URL and joins the client with what is served there.
func (s *API) stream(w http.ResponseWriter, r *http.Request, ask func() (string, error)) {
	if !httpstream.IsUpgradeRequest(r) {
		fail(w, badRequest("Upgrade request required"))
		return
	}
	address, err := ask()
	if err != nil {
		fail(w, err)
		return
	}
	if !s.sessions.begin() {
		fail(w, &problem{http.StatusServiceUnavailable, "the kubelet is ending"})
		return
	}
	defer s.sessions.done()
	if err := join(w, r, address); err != nil {
		fail(w, &problem{http.StatusBadGateway, "the runtime's streaming server: " + err.Error()})
	}
}
