package nodeapi

import (
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// statusError is an error with its HTTP status. Users of kubectl see its text.
type statusError struct {
	code int
	text string
}

func (p *statusError) Error() string { return p.text }

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// retryAfter is the value of Retry-After in seconds. After this time every CRI runtime has dropped unused sessions and
// accepts new ones.
const retryAfter = "60"

// writeError answers with an error of this package or of the runtime.
func writeError(w http.ResponseWriter, err error) {
	var known *statusError
	if errors.As(err, &known) {
		http.Error(w, known.text, known.code)
		return
	}
	code := http.StatusInternalServerError
	switch status.Code(err) {
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.InvalidArgument, codes.FailedPrecondition:
		code = http.StatusBadRequest
	case codes.ResourceExhausted:
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", retryAfter)
	case codes.Unavailable:
		code = http.StatusServiceUnavailable
	case codes.Unimplemented:
		code = http.StatusNotImplemented
	}
	http.Error(w, err.Error(), code)
}

func unprocessable(format string, args ...any) error {
	return &statusError{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}
