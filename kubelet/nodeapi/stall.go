package nodeapi

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// stallTimeout is the time in which a client must read writePart bytes of a response.
	stallTimeout = 2 * time.Minute
	writePart    = 64 << 10
)

// boundStalls ends the connection of a client that stops reading its response. Otherwise the client would hold the
// connection and the response for ever. A client that reads has no limit, so that it can follow a log. It does not
// affect connections that a handler takes over.
func boundStalls(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bounded := &stallWriter{w, http.NewResponseController(w), stallTimeout}
		if strings.HasPrefix(r.URL.Path, "/containerLogs/") {
			bounded.limit = readTimeout // a user may pause while reading a log
		}
		next.ServeHTTP(bounded, r)
		bounded.extend() // net/http sends the rest
	})
}

// stallWriter makes a write fail if the client takes longer than limit to read a part of the response.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// Unwrap is for http.ResponseController.
func (s *stallWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stallWriter) Write(data []byte) (written int, err error) {
	for part := range slices.Chunk(data, writePart) {
		s.extend()
		n, err := s.ResponseWriter.Write(part)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// FlushError is for http.ResponseController.
func (s *stallWriter) FlushError() error {
	s.extend()
	return s.control.Flush()
}

// extend fails only if the connection is closed. Then the next write fails, too.
func (s *stallWriter) extend() { _ = s.control.SetWriteDeadline(time.Now().Add(s.limit)) }
