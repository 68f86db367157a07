package nodeapi

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

// streams are the requested streams of a command.
type streams struct{ stdin, stdout, stderr, tty bool }

// parseStreams reads the parameters under the kubelet's or the API server's names. A terminal has no stderr.
func parseStreams(query url.Values) (wanted streams, err error) {
	for _, flag := range []struct {
		field       *bool
		name, other string
	}{
		{&wanted.stdin, "input", "stdin"}, {&wanted.stdout, "output", "stdout"}, {&wanted.stderr, "error", "stderr"},
		{&wanted.tty, "tty", "tty"},
	} {
		if *flag.field, err = anyBoolean(query, flag.name, flag.other); err != nil {
			return streams{}, err
		}
	}
	wanted.stderr = wanted.stderr && !wanted.tty
	if !wanted.stdin && !wanted.stdout && !wanted.stderr {
		return streams{}, badRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	return wanted, nil
}

// exec runs a command in a container, over SPDY or a WebSocket.
func (s *API) exec(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func() (string, error) {
		query := r.URL.Query()
		wanted, err := parseStreams(query)
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
			ContainerId: id, Cmd: query["command"], Stdin: wanted.stdin, Stdout: wanted.stdout, Stderr: wanted.stderr,
			Tty: wanted.tty,
		})
		return answer.GetUrl(), err
	})
}

// attach connects to the process of a container. The container's specification says whether the process has a terminal.
func (s *API) attach(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func() (string, error) {
		wanted, err := parseStreams(r.URL.Query())
		if err != nil {
			return "", err
		}
		pod, id, err := s.container(r)
		if err != nil {
			return "", err
		}
		spec, _ := model.FindContainer(&pod.Spec, r.PathValue("container"))
		answer, err := s.runtime.Attach(r.Context(), &runtimeapi.AttachRequest{
			ContainerId: id, Stdin: wanted.stdin, Stdout: wanted.stdout, Stderr: wanted.stderr && !spec.TTY,
			Tty: spec.TTY,
		})
		return answer.GetUrl(), err
	})
}

// portForward forwards ports of a pod, over SPDY, SPDY inside a WebSocket, or the older WebSocket protocol.
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

// parsePorts reads the ports for the older WebSocket protocol. SPDY clients name the port with each connection.
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
				return nil, badRequest("query parameter %q: %q is not a port", "port", number)
			}
			ports = append(ports, int32(port))
		}
	}
	return ports, nil
}

// stream gets a URL from the runtime and proxies the client's connection to it.
func (s *API) stream(w http.ResponseWriter, r *http.Request, getURL func() (string, error)) {
	if !httpstream.IsUpgradeRequest(r) {
		writeError(w, badRequest("Upgrade request required"))
		return
	}
	address, err := getURL()
	if err != nil {
		writeError(w, err)
		return
	}
	if !s.sessions.begin() {
		writeError(w, &statusError{http.StatusServiceUnavailable, "the kubelet is shutting down"})
		return
	}
	defer s.sessions.done()
	if err := proxy(w, r, address); err != nil {
		writeError(w, &statusError{http.StatusBadGateway, "the runtime's streaming server: " + err.Error()})
	}
}
