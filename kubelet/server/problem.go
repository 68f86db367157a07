package server

import (
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// problem is an error that says with which HTTP status it is answered. Its text is what users of kubectl see.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func notFound(format string, args ...any) error {
	return &problem{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// ticketLife is after how many seconds a runtime with too many unused sessions has room again, as every CRI runtime.
const ticketLife = "60"

// fail answers with an error: a problem of ours, or one of the runtime's.
func fail(w http.ResponseWriter, err error) {
	var known *problem
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
		w.Header().Set("Retry-After", ticketLife)
	case codes.Unavailable:
		code = http.StatusServiceUnavailable
	case codes.Unimplemented:
		code = http.StatusNotImplemented
	}
	http.Error(w, err.Error(), code)
}

func unprocessable(format string, args ...any) error {
	return &problem{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}
