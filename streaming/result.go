package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/containerd/log"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// report sends the result of the session to the client. Protocols before v4 send a failure only, as text.
func (c connector) report(ctx context.Context, to io.Writer, structured bool, ended error) {
	got := resultOf(c.process.kind, ended)
	var err error
	switch {
	case structured:
		err = json.NewEncoder(to).Encode(got)
	case ended != nil:
		_, err = io.WriteString(to, got.Message)
	}
	if err != nil {
		log.G(ctx).WithError(err).Debug("cannot send result of session to client")
	}
}

// result is the part of a metav1.Status that clients of exec and attach read.
type result struct {
	Metadata struct{}       `json:"metadata"`
	Status   string         `json:"status"`
	Message  string         `json:"message,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Details  *resultDetails `json:"details,omitempty"`
	Code     int            `json:"code,omitempty"`
}

type resultDetails struct {
	Causes []resultCause `json:"causes,omitempty"`
}

type resultCause struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// resultOf returns the result of a session, like the library's handlers.
func resultOf(kind string, err error) result {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return result{Status: "Success"}
	case errors.As(err, &exit) && exit.Exited():
		return result{
			Status:  "Failure",
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Reason:  string(remotecommand.NonZeroExitCodeReason),
			Details: &resultDetails{Causes: []resultCause{
				{Reason: string(remotecommand.ExitCodeCauseType), Message: strconv.Itoa(exit.ExitStatus())},
			}},
		}
	}
	message := fmt.Sprintf("Internal error occurred: %s failed: %v", kind, err)
	return result{
		Status:  "Failure",
		Message: message,
		Reason:  "InternalError",
		Details: &resultDetails{Causes: []resultCause{{Message: err.Error()}}},
		Code:    http.StatusInternalServerError,
	}
}
