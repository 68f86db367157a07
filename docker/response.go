package docker

import (
	"context"
	"net/http"
)

// responseNote receives the status of the HTTP response to the request that
// was made with its context. The moby client says neither when an event stream
// was accepted nor with which status an exec was refused.
type responseNote struct {
	status chan int
}

type responseNoteKey struct{}

// withResponseNote returns a context whose requests note their response.
func withResponseNote(ctx context.Context) (context.Context, *responseNote) {
	note := &responseNote{status: make(chan int, 1)}
	return context.WithValue(ctx, responseNoteKey{}, note), note
}

// take returns the status of the first response, 0 when there was none so far.
func (n *responseNote) take() int {
	select {
	case status := <-n.status:
		return status
	default:
		return 0
	}
}

// noteResponse is a client.ResponseHook.
func noteResponse(resp *http.Response) {
	if resp.Request == nil {
		return
	}
	note, ok := resp.Request.Context().Value(responseNoteKey{}).(*responseNote)
	if !ok {
		return
	}
	select {
	case note.status <- resp.StatusCode:
	default:
	}
}
