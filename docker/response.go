package docker

import (
	"context"
	"net/http"
)

// responseStatus receives the status of the HTTP response to the request that was made with its context. The moby
// client does not report when an event stream was accepted. It also does not report the status with which an exec was
// refused.
type responseStatus chan int

type responseStatusKey struct{}

// withResponseStatus returns a context whose requests send the status of their response to the channel returned.
func withResponseStatus(ctx context.Context) (context.Context, responseStatus) {
	status := make(responseStatus, 1)
	return context.WithValue(ctx, responseStatusKey{}, status), status
}

// take returns the status of the first response, 0 when there was none so far.
func (s responseStatus) take() int {
	select {
	case status := <-s:
		return status
	default:
		return 0
	}
}

// sendStatus is a client.ResponseHook.
func sendStatus(resp *http.Response) {
	if resp.Request == nil {
		return
	}
	status, _ := resp.Request.Context().Value(responseStatusKey{}).(responseStatus)
	select {
	case status <- resp.StatusCode:
	default:
	}
}
