package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
)

// askTime bounds each request to the server.
const askTime = 10 * time.Second

// thing is a pod or a container in the archive.
type thing struct {
	ID      string    `json:"id"`
	Pod     string    `json:"pod,omitempty"`
	Name    string    `json:"name"`
	Attempt uint32    `json:"attempt"`
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	Image   string    `json:"image,omitempty"`
	Handler string    `json:"handler,omitempty"`
}

// pods lists pods and containers without their owners' configuration.
func (o Options) pods(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := status.CheckStarted(o.Endpoint); err != nil {
		return nil, err
	}
	conn, err := status.Dial(o.Endpoint)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	pods, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	containers, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var all struct {
		Pods       []thing `json:"pods"`
		Containers []thing `json:"containers"`
	}
	for _, p := range pods.GetItems() {
		all.Pods = append(all.Pods, thing{
			ID: p.GetId(), Name: p.GetMetadata().GetNamespace() + "/" + p.GetMetadata().GetName(),
			Attempt: p.GetMetadata().GetAttempt(),
			State:   p.GetState().String(), Created: time.Unix(0, p.GetCreatedAt()), Handler: p.GetRuntimeHandler(),
		})
	}
	for _, c := range containers.GetContainers() {
		all.Containers = append(all.Containers, thing{
			ID: c.GetId(), Pod: c.GetPodSandboxId(), Name: c.GetMetadata().GetName(),
			Attempt: c.GetMetadata().GetAttempt(),
			State:   c.GetState().String(), Created: time.Unix(0, c.GetCreatedAt()), Image: c.GetImage().GetImage(),
		})
	}
	return encode(all)
}

// metrics returns the metrics at --metrics-bind-addr, at most the first maxPart bytes.
func (o Options) metrics(ctx context.Context) ([]byte, error) {
	if o.Config.MetricsBindAddr == "" {
		return nil, errors.New("--metrics-bind-addr is not set")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if path := o.Config.MetricsSocket(); path != "" {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", o.Config.MetricsBindAddr)
		}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://criadapter/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(io.LimitReader(response.Body, maxPart))
}

// log returns the end of the server's log.
func (o Options) log(ctx context.Context) ([]byte, error) {
	switch {
	case o.LogFile != "":
		return readEnd(o.LogFile)
	case o.Unit == "":
		return nil, errors.New("neither a unit nor a log file is named")
	}
	return journal(ctx, o.Unit)
}

// journal returns the end of a unit's log. An empty log is an error: journalctl prints nothing for a unit that does not
// exist.
func journal(ctx context.Context, unit string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "--output=short-iso-precise",
		"--lines=20000", "--unit="+unit).Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		err = fmt.Errorf("journalctl: %w: %s; name the log's file with --log-file", err, bytes.TrimSpace(exit.Stderr))
	case err != nil:
		err = fmt.Errorf("journalctl: %w; name the log's file with --log-file", err)
	case len(output) == 0:
		err = fmt.Errorf(
			"the journal has nothing of the unit %s: name another with --unit, or the log's file with --log-file", unit)
	}
	return output, err
}

// readEnd reads the end of a file, which may be large.
func readEnd(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPart+1 {
		if _, err := file.Seek(-maxPart-1, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(file)
}
